/** The state that a page shows of the pool, and the interface of the model that keeps it up to date. */
import type { IDisposable } from '@lumino/disposable';
import type { ISignal } from '@lumino/signaling';
import type {
  GpuFigures,
  JobCounts,
  JobState,
  JobView,
  Me,
  NodeView,
  PoolView,
  ProjectView,
  ScheduleView,
  SessionView,
  ViewFigures
} from './api';
import type { Client, JobVerb } from './client';

export const UNFINISHED: readonly JobState[] = ['queued', 'starting', 'running', 'stopping', 'paused'];

export function isFinal(state: JobState): boolean {
  return !UNFINISHED.includes(state);
}

/** `connecting` until the first answer, `live` while events arrive, `lost` with a `problem` otherwise. */
export type Connection = 'connecting' | 'live' | 'lost';

/** An immutable state, replaced as a whole. */
export interface PoolState {
  readonly connection: Connection;
  readonly problem: string | null;
  readonly me: Me | null;
  readonly pool: PoolView | null;
  readonly projects: readonly ProjectView[];
  readonly sessions: readonly SessionView[];
  readonly jobs: ReadonlyMap<string, JobView>;
  /** Whether `jobs` has all jobs of the caller and their projects, all of the caller's own, all that are unfinished. */
  readonly hasAll: boolean;
  readonly hasAllMine: boolean;
  readonly hasAllUnfinished: boolean;
  /** The caller's own, by name. */
  readonly schedules: readonly ScheduleView[];
}

export interface IPoolModel extends IDisposable {
  readonly client: Client;
  readonly state: PoolState;
  readonly stateChanged: ISignal<IPoolModel, PoolState>;
  /** A job of the caller's ended while this page was open. */
  readonly jobEnded: ISignal<IPoolModel, JobView>;
  /** Connects; further calls do nothing. */
  start(): void;
  /** Reconnects now instead of waiting for the next attempt. */
  retry(): void;
  /** Performs an action on a job and shows the outcome; rejects with a `PoolError`. */
  act(id: string, verb: JobVerb): Promise<void>;
  /** Loads the job with this id into the state and keeps it there, if the caller may see it. */
  follow(id: string): Promise<JobView>;
  /** Adds jobs that were read elsewhere to the state, unless it has them already. */
  know(jobs: readonly JobView[]): void;
  /** Keeps the queue positions and the GPU use of these jobs up to date until the returned function is called. */
  show(ids: readonly string[]): () => void;
}

export const NOTHING: PoolState = {
  connection: 'connecting',
  problem: null,
  me: null,
  pool: null,
  projects: [],
  sessions: [],
  jobs: new Map(),
  hasAll: false,
  hasAllMine: false,
  hasAllUnfinished: false,
  schedules: []
};

const MOST_ENDED = 2000;

/** Existing items keep their order; new ones follow. */
export function inOrder(projects: readonly ProjectView[], before: readonly ProjectView[]): readonly ProjectView[] {
  const places = new Map(before.map((project, place) => [project.name, place]));
  return [...projects].sort((a, b) => (places.get(a.name) ?? Infinity) - (places.get(b.name) ?? Infinity) || 0);
}

/** Bounds the state of a page that stays open for weeks: drops the oldest finished jobs. Returns whether it did. */
export function trim(jobs: Map<string, JobView>): boolean {
  if (jobs.size <= MOST_ENDED) {
    return false;
  }
  const ended = [...jobs.values()].filter(job => isFinal(job.state)).sort((a, b) => (b.ended ?? 0) - (a.ended ?? 0));
  const dropped = ended.slice(MOST_ENDED);
  dropped.forEach(job => jobs.delete(job.id));
  return dropped.length > 0;
}

/** The state with the current figures, but for those of jobs. */
export function withFigures({ me, pool, projects }: PoolState, figures: Partial<ViewFigures>): Partial<PoolState> {
  const changed = new Map((figures.projects ?? []).map(project => [project.name, project]));
  const kept = projects.filter(project => !changed.has(project.name));
  return {
    me: figures.me ?? me,
    pool: pool && { ...pool, ...figures.pool, nodes: withUse(pool.nodes, figures.gpus ?? []) },
    projects: changed.size > 0 ? inOrder([...kept, ...changed.values()], projects) : projects
  };
}

function withUse(nodes: readonly NodeView[], figures: readonly GpuFigures[]): NodeView[] {
  const use = new Map(figures.map(({ node, ...figure }) => [`${node}\n${figure.index}`, figure]));
  const changed = new Set(figures.map(({ node }) => node));
  return nodes.map(node =>
    changed.has(node.name)
      ? { ...node, gpus: node.gpus.map(gpu => ({ ...gpu, ...use.get(`${node.name}\n${gpu.index}`) })) }
      : node
  );
}

/** How many unfinished jobs the caller has, or all projects whose jobs they see: also of those not in `jobs`. */
export function countsOf(state: PoolState, whose: 'mine' | 'team'): JobCounts {
  if (!state.hasAllUnfinished && state.me) {
    return whose === 'mine' ? state.me.jobs : state.me.team_jobs;
  }
  const counts = { running: 0, stopping: 0, waiting: 0, paused: 0 };
  for (const job of state.jobs.values()) {
    const counted = COUNTED[job.state];
    if (counted && (whose === 'team' || job.mine)) {
      counts[counted] += 1;
    }
  }
  return counts;
}

const COUNTED: Partial<Record<JobState, keyof JobCounts>> = {
  queued: 'waiting',
  starting: 'running',
  running: 'running',
  stopping: 'stopping',
  paused: 'paused'
};
