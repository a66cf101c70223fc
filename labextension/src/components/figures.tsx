/** The figures of a job's card: progress, metrics as lines, GPU use and a timeline of its attempts. */
import { useEffect, useRef, useState, type ReactElement, type RefObject } from 'react';
import type { AttemptView, JobView, PoolView } from '../model/api';
import type { Client } from '../model/client';
import { clock, duration, gib, metric, percent } from '../model/format';
import { isFinal } from '../model/state';
import { followReports, metrics, type Point, type Progress } from '../model/reports';
import type { Trans } from '../trans';
import { useTrans } from './hooks';
import { isSeen, watchSeen } from './seen';

/** The number of metrics that fit. */
const METRICS = 3;

/** The reports of a job, live while the element is visible. */
export function useReports(
  client: Client,
  job: JobView | undefined,
  wanted: boolean,
  ref: RefObject<HTMLElement>
): readonly Point[] {
  const [line, setLine] = useState<readonly Point[]>([]);
  const id = job?.id;
  const ended = useRef(false);
  const over = !!job && isFinal(job.state);
  useEffect(() => {
    ended.current = over;
    client.written.ring(id === undefined ? [] : [id]);
  }, [client, id, over]);
  const begun = !!job?.attempts.length;
  useEffect(() => {
    if (!wanted || !begun || id === undefined) {
      return;
    }
    const abort = new AbortController();
    void followReports(
      client,
      id,
      () => ended.current,
      () => isSeen(ref.current),
      setLine,
      abort.signal
    );
    const unwatch = watchSeen(ref.current, () => client.written.ring([id]));
    return () => {
      abort.abort();
      unwatch();
    };
  }, [client, id, begun, wanted, ref]);
  return line;
}

export function ProgressBar({ told }: { told: Pick<Progress, 'done' | 'total'> | null }): ReactElement | null {
  const trans = useTrans();
  if (!told?.total) {
    return null;
  }
  const part = Math.min(1, told.done / told.total);
  return (
    <div
      className="runai-Progress"
      role="progressbar"
      aria-label={trans.__('Progress')}
      aria-valuenow={Math.round(100 * part)}
      aria-valuemin={0}
      aria-valuemax={100}
    >
      <div style={{ width: `${100 * part}%` }} />
    </div>
  );
}

interface FiguresProps {
  job: JobView;
  line: readonly Point[];
  told: Progress | null;
  pool: PoolView | null;
  now: number;
}

export function Figures({ job, line, told, pool, now }: FiguresProps): ReactElement | null {
  const trans = useTrans();
  const use = gpuUse(job, pool);
  const shown = metrics(line).slice(0, METRICS);
  if (!told && !shown.length && !use) {
    return null;
  }
  const left = told === null || told.left === null ? null : told.left - (now - told.at);
  const goes = job.state === 'running';
  return (
    <div className="runai-Figures">
      {told && (
        <Figure
          value={told.total ? `${metric(told.done)} / ${metric(told.total)}` : metric(told.done)}
          name={told.unit === 'cell' ? trans.__('cell') : trans.__('step')}
          more={goes && left !== null && left >= 1 ? trans.__('≈ %1 left', duration(left, trans)) : ''}
        />
      )}
      {shown.map(({ name, values }) => (
        <Figure key={name} value={metric(values.at(-1)!)} name={name}>
          <Sparkline values={values} name={name} />
        </Figure>
      ))}
      {use && (
        <Figure
          value={percent(use.part)}
          name={trans.__('GPU use')}
          more={use.memory ? trans.__('%1 of %2', gib(use.memory[0], trans), gib(use.memory[1], trans)) : ''}
        />
      )}
    </div>
  );
}

interface FigureProps {
  value: string;
  name: string;
  more?: string;
  children?: ReactElement;
}

function Figure({ value, name, more, children }: FigureProps): ReactElement {
  return (
    <div className="runai-Figure">
      <span className="runai-Figure-value">{value}</span>
      <span className="runai-Aside">
        {name}
        {more && ` · ${more}`}
        {children}
      </span>
    </div>
  );
}

const WIDTH = 60;
const HEIGHT = 16;

/** A metric over the reports, from first to last, scaled between its minimum and maximum. */
export function Sparkline({ values, name }: { values: number[]; name: string }): ReactElement | null {
  const trans = useTrans();
  if (values.length < 2) {
    return null;
  }
  const least = Math.min(...values);
  const span = Math.max(...values) - least || 1;
  const points = values.map((value, at) => {
    const x = (WIDTH * at) / (values.length - 1);
    return `${x.toFixed(1)},${(HEIGHT - 1 - ((HEIGHT - 2) * (value - least)) / span).toFixed(1)}`;
  });
  return (
    <svg
      className="runai-Sparkline"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={trans.__('%1 from %2 to %3', name, metric(values[0]!), metric(values.at(-1)!))}
    >
      <polyline points={points.join(' ')} />
    </svg>
  );
}

interface Use {
  part: number;
  memory: [number, number] | null;
}

/** The mean use of a job's GPUs and the sum of their memory, if they are measured. */
function gpuUse(job: JobView, pool: PoolView | null): Use | null {
  if (isFinal(job.state)) {
    return null;
  }
  const gpus = (pool?.nodes ?? [])
    .flatMap(node => node.gpus)
    .filter(gpu => !gpu.declared && gpu.occupants.some(one => one.id === job.id));
  const used = gpus.map(gpu => gpu.utilisation).filter(part => part !== null);
  if (!used.length) {
    return null;
  }
  const sum = (values: (number | null)[]) => values.reduce<number>((a, b) => a + (b ?? 0), 0);
  const memory = sum(gpus.map(gpu => gpu.memory_gib));
  return {
    part: sum(used) / used.length,
    memory: memory ? [sum(gpus.map(gpu => gpu.used_memory_gib)), memory] : null
  };
}

/** A timeline of a job's attempts, from its first start to now or its end; the waits between them are hatched. */
export function Timeline({ job, now }: { job: JobView; now: number }): ReactElement | null {
  const trans = useTrans();
  const runs = job.attempts.filter(one => one.started !== null);
  // The latest stop that is not the job's end. For a waiting job, that is the end of its last attempt.
  const waits = job.state === 'paused' || job.state === 'queued';
  if (!runs.length || (runs.length === 1 && !waits)) {
    return null;
  }
  const begin = runs[0]!.started!;
  const before = waits ? runs.at(-1)! : runs.at(-2)!;
  const end = Math.max(begin + 1, job.ended ?? now);
  const place = (from: number, to: number) => ({
    left: `${(100 * (from - begin)) / (end - begin)}%`,
    width: `${(100 * Math.max(0, to - from)) / (end - begin)}%`
  });
  return (
    <div className="runai-Timeline">
      <div className="runai-Timeline-bar">
        {runs.map((one, at) => (
          <div
            key={one.number}
            className="runai-Timeline-run"
            data-failed={one.ending === 'failed'}
            title={trans.__('attempt %1: %2', one.number, one.reason || trans.__('running'))}
            style={place(one.started!, one.ended ?? runs[at + 1]?.started ?? end)}
          />
        ))}
      </div>
      <ol>
        <li>{trans.__('%1 started', clock(begin, now))}</li>
        <li className="runai-Timeline-reason">{endOf(before, clock(before.ended ?? begin, now), trans)}</li>
        {!waits && (
          <li>
            {trans.__(before.ending === 'failed' ? '%1 tried again' : '%1 resumed', clock(runs.at(-1)!.started!, now))}
          </li>
        )}
        <li>{isFinal(job.state) ? trans.__('%1 ended', clock(end, now)) : trans.__('now')}</li>
      </ol>
    </div>
  );
}

/** How an attempt ended that was followed by another. */
function endOf({ ending, reason }: AttemptView, at: string, trans: Trans): string {
  switch (ending) {
    case 'resized':
    case 'moved':
    case 'stopped':
      return trans.__('%1 %2', at, reason);
    case 'failed':
      return trans.__('%1 failed: %2', at, reason);
    default:
      return trans.__('%1 stopped: %2', at, reason);
  }
}
