/** How many GPUs were allocated over time, and how many of those were idle where that is measured. */
import { useEffect, useState, type ReactElement } from 'react';
import { LineChart } from '../components/linechart';
import { useTrans } from '../components/hooks';
import type { UsageReport } from '../model/api';
import type { Client } from '../model/client';
import { clock, gpus } from '../model/format';
import type { UsageQuery } from '../model/requests';
import { Card } from './card';
import { Choice } from './choice';
import { periodName, periodsOf, spanName, spanOf } from './spans';

const SPANS = ['day', 'week', 'month'] as const;
type Span = (typeof SPANS)[number];

/** The record of use is charged every minute. */
const AGAIN = 60_000;

const HOUR = 3600;

interface Point {
  at: number;
  value: number;
}

const NOTHING: { allocated: Point[]; idle: Point[] } = { allocated: [], idle: [] };

export function Allocation({ client, total }: { client: Client; total: number }): ReactElement | null {
  const trans = useTrans();
  const [span, setSpan] = useState<Span>('day');
  const [report, setReport] = useState<UsageReport | null>(null);
  useEffect(() => {
    let gone = false;
    const read = () => {
      const query = queryOf(span, Date.now() / 1000);
      return client.usage(query).then(
        found => gone || setReport({ ...found, ...query, by: found.by }),
        () => undefined // the page already shows a lost connection
      );
    };
    void read();
    const timer = setInterval(() => document.hidden || void read(), AGAIN);
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, [client, span]);
  const { allocated, idle } = report ? linesOf(report) : NOTHING;
  if (!report || allocated.length === 0) {
    return null;
  }
  return (
    <Card title={trans.__('Allocated GPUs')}>
      <div className="runai-Find">
        <Choice label={trans.__('Span')} value={span} values={SPANS} name={one => spanName(one, trans)} set={setSpan} />
      </div>
      <div className="runai-Allocation">
        <LineChart
          name={report.every === 'hour' ? trans.__('Average of each hour') : trans.__('Average of each day')}
          line={trans.__('allocated')}
          points={allocated}
          others={idle.length > 0 ? [{ id: 'idle', name: trans.__('idle'), points: idle }] : []}
          place={at => (span === 'day' ? clock(at, report.until) : periodName(at, 'day'))}
          written={value => gpus(Math.round(10 * value) / 10, trans)}
          scale={[0, Math.max(total, ...allocated.map(point => point.value))]}
        />
      </div>
    </Card>
  );
}

function queryOf(span: Span, now: number): UsageQuery {
  const query = spanOf(span, now);
  return { ...query, every: span === 'week' ? 'hour' : query.every, by: 'environment' };
}

/** The average numbers of GPUs in each period; the last one has lasted until now. */
export function linesOf({ since, until, every, rows }: UsageReport): { allocated: Point[]; idle: Point[] } {
  const length = every === 'hour' ? HOUR : 24 * HOUR;
  const periods = periodsOf({ since, until, every: every ?? 'day' });
  const mean = (measure: 'gpu_hours' | 'idle_gpu_hours', start: number) =>
    rows.filter(row => row.start === start).reduce((sum, row) => sum + row[measure], 0) /
    (Math.max(60, Math.min(length, until - start)) / HOUR);
  const line = (measure: 'gpu_hours' | 'idle_gpu_hours') =>
    periods.map(start => ({ at: start, value: mean(measure, start) }));
  const measured = rows.some(row => row.measured_gpu_hours > 0);
  return { allocated: line('gpu_hours'), idle: measured ? line('idle_gpu_hours') : [] };
}
