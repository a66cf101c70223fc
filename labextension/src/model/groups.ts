/** Jobs that were submitted together: an array, a sweep, or the trials of a search. */
import type { JobState, JobView } from './api';
import { FACTS, number, type Point } from './reports';
import { isFinal } from './state';

export interface JobGroup {
  /** The array's id, or for a search what its trials have in common. */
  readonly key: string;
  readonly name: string;
  readonly jobs: readonly JobView[];
  /** How many were submitted together; for a search, the trials so far. */
  readonly size: number;
}

const NUMBERED = /^(.+)-(\d+)$/;

/** The index of a job in its group; null for a single job. */
export function numberOf(job: JobView): number | null {
  if (job.array !== null) {
    return job.index;
  }
  // A search submits its trials one by one, numbered from 0, each with its own parameter values.
  const number = Object.keys(job.parameters).length > 0 ? NUMBERED.exec(job.name)?.[2] : undefined;
  return number === undefined ? null : Number(number);
}

/** The groups of the jobs, by the ids of their members. Single jobs have none. */
export function groupsOf(jobs: Iterable<JobView>): Map<string, JobGroup> {
  const members = new Map<string, JobView[]>();
  const put = (key: string, job: JobView) => members.set(key, [...(members.get(key) ?? []), job]);
  const trials: JobView[] = [];
  for (const job of jobs) {
    if (job.array !== null) {
      put(job.array, job);
    } else if (numberOf(job) !== null) {
      trials.push(job);
    }
  }
  for (const [key, search] of searches(trials)) {
    members.set(key, search);
  }
  const groups = new Map<string, JobGroup>();
  for (const [key, found] of members) {
    const size = Math.max(found.length, found[0]!.array_size ?? 0);
    const group = { key, name: stem(found[0]!), jobs: found, size };
    for (const job of size > 1 ? found : []) {
      groups.set(job.id, group);
    }
  }
  return groups;
}

/** Trials of the same name belong to one search until their numbers restart. */
function* searches(trials: readonly JobView[]): Iterable<[string, JobView[]]> {
  const open = new Map<string, JobView[]>();
  const inOrder = [...trials].sort((a, b) => a.submitted - b.submitted || numberOf(a)! - numberOf(b)!);
  for (const job of inOrder) {
    const of = [job.user, job.project, stem(job)].join('\n');
    const search = open.get(of);
    if (search && numberOf(job)! > numberOf(search.at(-1)!)!) {
      search.push(job);
    } else {
      if (search) {
        yield [`search ${search[0]!.id}`, search];
      }
      open.set(of, [job]);
    }
  }
  for (const search of open.values()) {
    yield [`search ${search[0]!.id}`, search];
  }
}

function stem(job: JobView): string {
  return NUMBERED.exec(job.name)?.[1] ?? job.name;
}

const RANK: Record<JobState, number> = {
  running: 0,
  starting: 0,
  stopping: 0,
  queued: 1,
  paused: 2,
  failed: 3,
  cancelled: 3,
  succeeded: 3
};

/** Running jobs, then waiting, paused and finished ones; each by index, numerically. */
export function byNumber(jobs: readonly JobView[]): JobView[] {
  return [...jobs].sort((a, b) => RANK[a.state] - RANK[b.state] || (numberOf(a) ?? 0) - (numberOf(b) ?? 0));
}

/** The overall state of a group. */
export function stateOf(jobs: readonly JobView[]): JobState {
  const has = (state: JobState) => jobs.some(job => job.state === state);
  const unfinished: JobState[] = ['running', 'starting', 'stopping', 'queued', 'paused'];
  return [...unfinished, 'failed' as const, 'cancelled' as const].find(has) ?? 'succeeded';
}

export interface Best {
  readonly metric: string;
  readonly value: number;
  readonly job: JobView;
}

const LOW = /loss|err(or)?$|mse$|mae$|perplexity|ppl$|^[wc]er$/i;
const HIGH = /acc(uracy)?$|auc$|f1|score$|precision|recall|iou$|bleu|r2$/i;
const JUDGED = /^(val|valid|validation|test|eval)[_/-]?/i;

/** As `bestBy`. The metric's name says whether lower or higher is better; validation metrics come first. */
export function bestOf(jobs: readonly JobView[], latest: ReadonlyMap<string, Point>): Best | null {
  const names = new Set(jobs.flatMap(job => Object.keys(latest.get(job.id) ?? {})).filter(name => !FACTS.has(name)));
  const judged = [...names].filter(name => LOW.test(name) || HIGH.test(name));
  const metric = judged.find(name => JUDGED.test(name)) ?? judged[0];
  return metric === undefined ? null : bestBy(jobs, latest, metric, LOW.test(metric) ? 1 : -1);
}

/**
 * The best job of those that have succeeded or, if there are none, of all that have reported. `sign`: 1 if lower values
 * of the metric are better, else -1.
 */
export function bestBy(
  jobs: readonly JobView[],
  latest: ReadonlyMap<string, Point>,
  metric: string,
  sign: number
): Best | null {
  const known = jobs.flatMap(job => {
    const value = number(latest.get(job.id), metric);
    return value === null ? [] : [{ metric, value, job }];
  });
  const done = known.filter(one => one.job.state === 'succeeded');
  return (done.length ? done : known).reduce<Best | null>(
    (best, one) => (best && sign * best.value <= sign * one.value ? best : one),
    null
  );
}

export function ended(jobs: readonly JobView[]): number {
  return jobs.filter(job => isFinal(job.state)).length;
}
