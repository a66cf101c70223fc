/** The reports of a job (`job.report(step=…, loss=…)`), merged over all its attempts. */
import type { Client } from './client';
import { pause, PoolError } from './transport';

export type Point = Readonly<Record<string, unknown>>;

/** The keys of a report that are not metrics. */
export const FACTS = new Set(['time', 'attempt', 'rank', 'step', 'total', 'cell', 'cells']);

/** The maximum number of points kept; a longer series keeps every other point. */
const MOST = 1000;

export function number(point: Point | undefined, name: string): number | null {
  const value = point?.[name];
  return typeof value === 'number' && Number.isFinite(value) ? value : null;
}

/** The first worker's points, without those that a later attempt repeated from an earlier step. */
export function continuous(before: readonly Point[], told: readonly Point[]): Point[] {
  const line = [...before];
  for (const point of told) {
    if ((number(point, 'rank') ?? 0) !== 0) {
      continue;
    }
    const step = number(point, 'step');
    const attempt = number(point, 'attempt') ?? 1;
    for (let last = line.at(-1); last && step !== null; last = line.at(-1)) {
      const redone = (number(last, 'step') ?? -1) >= step && (number(last, 'attempt') ?? 1) < attempt;
      if (!redone) {
        break;
      }
      line.pop();
    }
    line.push(point);
  }
  return line.length > MOST ? line.filter((_, at) => (line.length - 1 - at) % 2 === 0) : line;
}

/** The metrics and their values, in the order of their first report. */
export function metrics(line: readonly Point[]): { name: string; values: number[] }[] {
  const found = new Map<string, number[]>();
  for (const point of line) {
    for (const name of Object.keys(point)) {
      const value = FACTS.has(name) ? null : number(point, name);
      if (value !== null) {
        found.set(name, [...(found.get(name) ?? []), value]);
      }
    }
  }
  return [...found].map(([name, values]) => ({ name, values }));
}

/** The metrics over the steps or, without steps, over the reports. */
export function metricPoints(
  line: readonly Point[]
): { name: string; steps: boolean; points: { at: number; value: number }[] }[] {
  return metrics(line).map(({ name }) => {
    const told = line.filter(point => number(point, name) !== null);
    const steps = told.every(point => number(point, 'step') !== null);
    const points = told.map((point, n) => ({
      at: steps ? number(point, 'step')! : n + 1,
      value: number(point, name)!
    }));
    return { name, steps, points };
  });
}

export interface Progress {
  /** `step`: counted by the job; `cell`: the cells of a notebook. */
  readonly unit: 'step' | 'cell';
  readonly done: number;
  readonly total: number | null;
  /** The remaining seconds at the pace of this attempt, counted from the last report. */
  readonly left: number | null;
  /** The time of that report. */
  readonly at: number;
}

/** The progress of a job according to its last report. */
export function progress(line: readonly Point[]): Progress | null {
  const unit = line.some(point => number(point, 'step') !== null) ? 'step' : 'cell';
  const counted = line.filter(point => number(point, unit) !== null);
  const last = counted.at(-1);
  if (!last) {
    return null;
  }
  const done = number(last, unit)!;
  const total = number(last, unit === 'step' ? 'total' : 'cells');
  const first = counted.find(point => point.attempt === last.attempt)!;
  const at = number(last, 'time') ?? 0;
  const steps = done - number(first, unit)!;
  const pace = steps > 0 ? (at - (number(first, 'time') ?? at)) / steps : null;
  return {
    unit,
    done,
    total,
    left: total === null || pace === null ? null : Math.max(0, total - done) * pace,
    at
  };
}

/**
 * Reads a job's reports until it ends, and calls `show` as they grow: whenever it has reported, or `client.written` is
 * rung for it. `seen`: whether the element is visible.
 */
export async function followReports(
  client: Client,
  job: string,
  ended: () => boolean,
  seen: () => boolean,
  show: (line: readonly Point[]) => void,
  signal: AbortSignal
): Promise<void> {
  let line: Point[] = [];
  let offset = 0;
  const alarm = client.written.alarm(job, 'reported', signal);
  while (!signal.aborted) {
    const over = ended();
    let [more, failed] = [false, false];
    if (seen()) {
      try {
        const page = await client.metrics(job, offset, signal);
        more = page.next !== offset;
        offset = page.next;
        if (page.points.length) {
          line = continuous(line, page.points);
          show(line);
        }
      } catch (reason) {
        if (signal.aborted || (reason instanceof PoolError && !reason.passing)) {
          return;
        }
        failed = true;
      }
      if (over && !more && !failed) {
        return;
      }
    }
    await pause(failed ? 5000 : 500, signal);
    if (!more && !failed) {
      await alarm.next(signal);
    }
  }
}
