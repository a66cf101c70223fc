/**
 * What the scheduler decided, and why: jobs that started, were paused, moved or stopped, and those that wait.
 *
 * Decisions follow from the jobs themselves, so they are the same after a reload, and change with the jobs' events.
 */
import type { AttemptView, JobView } from './api';

export type DecisionKind = 'start' | 'pause' | 'restart' | 'stop' | 'requeue' | 'wait';

/** What was decided for one job, or at the same time and for the same reason for several of a project. */
export interface Decided {
  readonly kind: DecisionKind;
  readonly at: number;
  readonly reason: string;
  readonly jobs: readonly JobView[];
  /** Of a start: the nodes, the GPUs, and whether the jobs ran before. */
  readonly nodes: readonly string[];
  readonly gpus: number;
  readonly again: boolean;
  /** How many of the jobs hold these GPUs now, and how many of those are over quota. */
  readonly holding: number;
  readonly over: number;
}

/** Decisions of one kind on a project that follow each other within this many seconds are one. */
const TOGETHER = 60;

const ENDINGS: Partial<Record<NonNullable<AttemptView['ending']>, DecisionKind>> = {
  preempted: 'pause',
  resized: 'restart',
  moved: 'restart',
  overran: 'stop',
  idle: 'stop',
  lost: 'requeue'
};

/** The latest decisions, newest first. */
export function decisionsOf(jobs: Iterable<JobView>, most: number): Decided[] {
  const waiting = new Map<string, Decided[]>();
  const others: Decided[] = [];
  for (const one of [...jobs].flatMap(ofJob)) {
    const project = one.jobs[0]!.project;
    if (one.kind === 'wait') {
      const those = waiting.get(project) ?? [];
      those.push(one);
      waiting.set(project, those);
    } else {
      others.push(one);
    }
  }
  const found = [...waiting.values()].map(waitOf);
  return [...found, ...grouped(others.sort(newestFirst), most)].sort(newestFirst).slice(0, most);
}

function newestFirst(a: Decided, b: Decided): number {
  return b.at - a.at;
}

/** Decisions that were made together as one. */
function grouped(decisions: readonly Decided[], most: number): Decided[] {
  const found: Decided[] = [];
  for (const one of decisions) {
    const at = found.findIndex(newer => belongs(one, newer));
    if (at >= 0) {
      found[at] = together(found[at]!, one);
    } else if (found.length < most) {
      found.push(one);
    } else if (one.at < found.at(-1)!.at - TOGETHER) {
      break;
    }
  }
  return found;
}

const known = new WeakMap<JobView, Decided[]>();

/** A view of a job does not change, and there may be thousands. */
function ofJob(job: JobView): Decided[] {
  const found = known.get(job) ?? read(job);
  known.set(job, found);
  return found;
}

function read(job: JobView): Decided[] {
  const plain = { jobs: [job], nodes: [], gpus: 0, again: false, holding: 0, over: 0 };
  const found: Decided[] = [];
  for (const [n, attempt] of job.attempts.entries()) {
    const before = job.attempts[n - 1];
    // The next attempt of a job that is moved or resized belongs to that decision.
    if (!(before?.ending === 'moved' || before?.ending === 'resized')) {
      const nodes = [...new Set(attempt.workers.map(worker => worker.node))];
      const gpus = attempt.workers.reduce((sum, worker) => sum + worker.gpus.length * worker.share, 0);
      const holding = Number(attempt.ended === null);
      const over = Number(holding && job.over_quota);
      const again = before !== undefined;
      found.push({ ...plain, kind: 'start', at: attempt.created, reason: '', nodes, gpus, again, holding, over });
    }
    const kind = attempt.ending && ENDINGS[attempt.ending];
    const at = attempt.stopping ?? attempt.ended;
    if (kind && at !== null) {
      found.push({ ...plain, kind, at, reason: attempt.reason });
    }
  }
  if (job.state === 'queued' && job.reason) {
    found.push({ ...plain, kind: 'wait', at: job.attempts.at(-1)?.ended ?? job.submitted, reason: job.reason });
  }
  return found;
}

/** Whether an older decision was made together with a newer one. */
function belongs(older: Decided, newer: Decided): boolean {
  return (
    newer.kind === older.kind &&
    newer.reason === older.reason &&
    newer.again === older.again &&
    newer.jobs[0]!.project === older.jobs[0]!.project &&
    newer.at - older.at <= TOGETHER
  );
}

function together(newer: Decided, older: Decided): Decided {
  const jobs = newer.jobs.some(job => job.id === older.jobs[0]!.id) ? newer.jobs : [...newer.jobs, ...older.jobs];
  return {
    ...newer,
    jobs,
    nodes: [...new Set([...newer.nodes, ...older.nodes])],
    gpus: newer.gpus + older.gpus,
    holding: newer.holding + older.holding,
    over: newer.over + older.over
  };
}

/** The jobs of a project that wait: one decision, with the reason of the one that is next in line. */
function waitOf(all: readonly Decided[]): Decided {
  const place = (one: Decided) => one.jobs[0]!.position ?? Infinity;
  const first = all.reduce((best, one) => (place(one) < place(best) ? one : best));
  const newest = all.reduce((latest, one) => (one.at > latest.at ? one : latest));
  return { ...first, at: newest.at, jobs: [first, ...all.filter(one => one !== first)].map(one => one.jobs[0]!) };
}
