/** The pool over time: allocated, used and idle GPUs, the length of the queue, and how long jobs waited. */
import { useEffect, useState, type ReactElement } from 'react';
import { LineChart, type LineChartProps } from '../components/linechart';
import { useTrans } from '../components/hooks';
import type { PoolHistory, PoolPoint } from '../model/api';
import type { Client } from '../model/client';
import { amount, clock, duration, gpus } from '../model/format';
import { Card } from './card';
import { Choice } from './choice';
import { LATEST, periodName, spanName, type Latest } from './spans';

/** The points of a chart: minutes, quarters of an hour, hours, days. */
const POINTS: Record<Latest, number> = { hour: 60, day: 96, week: 168, month: 30 };

/** The pool is recorded every minute. */
const AGAIN = 60_000;

const DAY = 86_400;

export function History({ client, total }: { client: Client; total: number }): ReactElement | null {
  const trans = useTrans();
  const [span, setSpan] = useState<Latest>('day');
  const [history, setHistory] = useState<PoolHistory | null>(null);
  useEffect(() => {
    let gone = false;
    const read = () =>
      client.poolHistory(Math.floor(Date.now() / 1000) - LATEST[span], POINTS[span]).then(
        found => gone || setHistory(found),
        () => undefined // the page already shows a lost connection
      );
    void read();
    const timer = setInterval(() => document.hidden || void read(), AGAIN);
    return () => {
      gone = true;
      clearInterval(timer);
    };
  }, [client, span]);
  if (!history) {
    return null;
  }
  return (
    <Card title={trans.__('Over time')}>
      <div className="runai-Find">
        <Choice
          label={trans.__('Span')}
          value={span}
          values={Object.keys(LATEST) as Latest[]}
          name={one => spanName(one, trans)}
          set={setSpan}
        />
      </div>
      {history.points.length > 0 ? (
        <Charts history={history} total={total} />
      ) : (
        <p className="runai-Empty">{trans.__('Nothing was recorded in this time.')}</p>
      )}
    </Card>
  );
}

function Charts({ history, total }: { history: PoolHistory; total: number }): ReactElement {
  const trans = useTrans();
  const { since, until, step } = history;
  const charts: Omit<LineChartProps, 'place'>[] = [
    {
      name: trans.__('Allocated GPUs'),
      line: trans.__('allocated'),
      points: lineOf(history, 'allocated'),
      others: [
        { id: 'used', name: trans.__('used'), points: lineOf(history, 'used') },
        { id: 'idle', name: trans.__('allocated but idle'), points: lineOf(history, 'idle') }
      ].filter(line => line.points.length > 0),
      written: value => gpus(Math.round(10 * value) / 10, trans),
      scale: [0, Math.max(total, highest(history, 'allocated'))]
    },
    {
      name: trans.__('Jobs in the queue'),
      points: lineOf(history, 'queued'),
      written: value => amount(Math.round(10 * value) / 10),
      scale: [0, Math.max(1, highest(history, 'queued'))]
    },
    {
      name: trans.__('Wait of the jobs that started'),
      line: trans.__('average'),
      points: lineOf(history, 'mean_wait'),
      others: [{ id: 'longest', name: trans.__('longest'), points: longestWaits(history) }],
      written: value => (value > 0 ? duration(value, trans) : '0'),
      scale: [0, Math.max(1, highest(history, 'longest_wait'))],
      gap: Infinity // a time without starts is no gap in the record
    }
  ];
  return (
    <div className="runai-History">
      {charts
        .filter(chart => chart.points.length > 0)
        .map(chart => (
          <LineChart
            key={chart.name}
            gap={1.5 * step}
            {...chart}
            span={[Math.min(since, chart.points[0]!.at), until]}
            place={at => (step < DAY ? clock(at, until) : periodName(at, 'day'))}
          />
        ))}
    </div>
  );
}

type Measure = Exclude<keyof PoolPoint, 'start' | 'starts'>;

/** The points of a measure, without the periods in which it was not recorded. */
export function lineOf({ points }: PoolHistory, measure: Measure): { at: number; value: number }[] {
  return points.flatMap(point => {
    const value = point[measure];
    return value === null ? [] : [{ at: point.start, value }];
  });
}

function longestWaits(history: PoolHistory): { at: number; value: number }[] {
  return lineOf({ ...history, points: history.points.filter(point => point.starts > 0) }, 'longest_wait');
}

function highest(history: PoolHistory, measure: Measure): number {
  return Math.max(0, ...lineOf(history, measure).map(point => point.value));
}
