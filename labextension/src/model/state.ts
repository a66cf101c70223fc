/** What a page shows of the pool, and what it may ask of the model that keeps it up to date. */
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import type { JobState, JobView, Me, PoolView, ProjectView, SessionView } from './api';
import type { Client, JobVerb } from './client';

export const UNFINISHED: readonly JobState[] = ['queued', 'starting', 'running', 'stopping', 'paused'];

export function isFinal(state: JobState): boolean {
  return !UNFINISHED.includes(state);
}

/** `connecting` until the first answer, `live` while changes arrive, `lost` with a `problem` while they do not. */
export type Connection = 'connecting' | 'live' | 'lost';

/** What there is to show: never changed, only replaced. */
export interface PoolState {
  readonly connection: Connection;
  readonly problem: string | null;
  readonly me: Me | null;
  readonly pool: PoolView | null;
  readonly projects: readonly ProjectView[];
  readonly sessions: readonly SessionView[];
  readonly jobs: ReadonlyMap<string, JobView>;
}

export interface IPoolModel extends IDisposable {
  readonly client: Client;
  readonly state: PoolState;
  readonly stateChanged: ISignal<IPoolModel, PoolState>;
  /** A job of the caller's came to its end while this page was open. */
  readonly jobEnded: ISignal<IPoolModel, JobView>;
  /** Connects, once; after that does nothing. */
  start(): void;
  /** Connects again now rather than when the next try is due. */
  retry(): void;
  /** Does something to a job and shows the outcome; rejects with a `PoolError`. */
  act(id: string, verb: JobVerb): Promise<void>;
  /** Reads the figures of the pool again: how busy a GPU is, no event tells. */
  refresh(): void;
  /** Has the job with this id in the state, from now on, where the caller may see it. */
  follow(id: string): Promise<JobView>;
  /** Keeps the places in line of these jobs up to date until the function that it returns is called. */
  show(ids: readonly string[]): () => void;
}

export const NOTHING: PoolState = {
  connection: 'connecting',
  problem: null,
  me: null,
  pool: null,
  projects: [],
  sessions: [],
  jobs: new Map()
};

const MOST_JOBS = 2000;

/** Those that were there before in their order, the others after them. */
export function inOrder(projects: readonly ProjectView[], before: readonly ProjectView[]): readonly ProjectView[] {
  const places = new Map(before.map((project, place) => [project.name, place]));
  return [...projects].sort((a, b) => (places.get(a.name) ?? Infinity) - (places.get(b.name) ?? Infinity) || 0);
}

/** Keeps a page that stays open for weeks small: the oldest jobs that have ended go first. */
export function trim(jobs: Map<string, JobView>): void {
  if (jobs.size <= MOST_JOBS) {
    return;
  }
  const ended = [...jobs.values()].filter(job => isFinal(job.state)).sort((a, b) => (a.ended ?? 0) - (b.ended ?? 0));
  for (const job of ended.slice(0, jobs.size - MOST_JOBS)) {
    jobs.delete(job.id);
  }
}
