/** How the GPUs of a job are used, or were used while an attempt held them. */
import { useEffect, useId, useRef, useState, type ReactElement } from 'react';
import type { JobGpuUse, JobView, PoolView } from '../model/api';
import type { Client } from '../model/client';
import { clock, gib, percent } from '../model/format';
import { linesOf, type Measure } from '../model/gpuuse';
import { useTrans } from './hooks';
import { LineChart } from './linechart';

/** The history has a point for each 10 s at most; in milliseconds. */
const AGAIN = 10_000;

export interface GpuUseProps {
  client: Client;
  job: JobView;
  /** Changes when the use of GPUs does. */
  pool: PoolView | null;
}

export function GpuUse({ client, job, pool }: GpuUseProps): ReactElement | null {
  const trans = useTrans();
  const id = useId();
  const [chosen, setChosen] = useState<number | null>(null); // null: always the latest attempt
  const attempts = job.attempts.filter(attempt => attempt.started !== null);
  const attempt = attempts.find(one => one.number === chosen) ?? attempts.at(-1);
  const [use, problem] = useGpuUse(client, job.id, attempt?.number, attempt?.ended === null, pool);
  if (!job.total_gpus || !attempt) {
    return null;
  }
  return (
    <section className="runai-GpuUse" aria-labelledby={id}>
      <div className="runai-GpuUse-head">
        <h3 id={id}>{trans.__('GPU use')}</h3>
        {attempts.length > 1 && (
          <label>
            {trans.__('Attempt')}{' '}
            <select
              className="jp-mod-styled"
              value={attempt.number}
              onChange={event => setChosen(Number(event.target.value))}
            >
              {attempts.map(({ number }) => (
                <option key={number}>{number}</option>
              ))}
            </select>
          </label>
        )}
      </div>
      {use?.attempt === attempt.number ? (
        <Charts use={use} declared={pool?.declared ?? false} />
      ) : (
        <div className="runai-Hint" role={problem ? 'alert' : undefined}>
          {problem ?? trans.__('Loading…')}
        </div>
      )}
    </section>
  );
}

function Charts({ use, declared }: { use: JobGpuUse; declared: boolean }): ReactElement {
  const trans = useTrans();
  const measured = (['utilisation', 'used_memory_gib'] as const).filter(one => linesOf(use, one, trans).length > 0);
  const hints = [
    !measured.length &&
      (declared
        ? trans.__('The GPUs of this pool are declared: their use is not measured.')
        : trans.__('The use of these GPUs was not measured in this time.')),
    measured.length &&
      use.declared &&
      trans.__('Declared load: the figures are what the pool file declares, and nothing is measured.'),
    measured.length && use.shared && trans.__('The job holds a part of a GPU: the figures are those of the whole GPU.'),
    measured.length &&
      use.held > use.gpus.length &&
      trans.__('Only the first %1 of its %2 GPUs are counted.', use.gpus.length, use.held)
  ].filter(hint => typeof hint === 'string');
  return (
    <>
      <div className="runai-JobPage-charts">
        {measured.map(measure => (
          <Chart key={measure} use={use} measure={measure} />
        ))}
      </div>
      {hints.length > 0 && <div className="runai-Hint">{hints.join(' ')}</div>}
    </>
  );
}

function Chart({ use, measure }: { use: JobGpuUse; measure: Measure }): ReactElement {
  const trans = useTrans();
  const [first, ...others] = linesOf(use, measure, trans);
  const busy = measure === 'utilisation';
  const points = [first!, ...others].flatMap(line => line.points);
  const most = Math.max(...points.map(point => point.value));
  return (
    <LineChart
      name={busy ? trans.__('Use') : trans.__('Memory')}
      points={first!.points}
      line={first!.name}
      others={others.map(line => ({ id: line.name, ...line }))}
      place={at => clock(at, use.until)}
      written={value => (busy ? percent(value) : gib(value, trans))}
      span={[Math.min(use.since, ...points.map(point => point.at)), use.until]}
      scale={[0, busy ? 1 : Math.ceil(1.25 * most) || 1]}
      gap={1.5 * use.step}
    />
  );
}

/** The use of an attempt's GPUs, read again with the pool's figures while it runs, and why it could not be read. */
function useGpuUse(
  client: Client,
  job: string,
  attempt: number | undefined,
  runs: boolean,
  pool: PoolView | null
): [JobGpuUse | null, string | null] {
  const [use, setUse] = useState<JobGpuUse | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const read = useRef({ what: '', at: 0 });
  const figures = runs ? pool : null;
  useEffect(() => {
    if (attempt === undefined) {
      return;
    }
    const what = `${job} ${attempt} ${runs}`;
    const wait = read.current.what === what ? Math.max(0, read.current.at + AGAIN - Date.now()) : 0;
    const timer = setTimeout(() => {
      read.current = { what, at: Date.now() };
      const show = (found: JobGpuUse | null, error: string | null) => {
        if (read.current.what === what) {
          setUse(before => found ?? before);
          setProblem(error);
        }
      };
      client.gpuUse(job, attempt).then(
        found => show(found, null),
        (error: Error) => show(null, error.message)
      );
    }, wait);
    return () => clearTimeout(timer);
  }, [client, job, attempt, runs, figures]);
  return [use, problem];
}
