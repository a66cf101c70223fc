// Made by scripts/api_types.py from scheduler/schema/: change that file, not this one.

/** The values that a job may choose from. */
export interface AllowedEntry {
  gpu_types: string[] | null;
  node_pools: string[] | null;
  preemptible: boolean[] | null;
}

/**
 * warnings says what an administrator should know (more build GPUs promised than there are, say). A preview has
 * the effects that the change would have now.
 */
export interface Applied {
  preview: boolean;
  changes: Change[];
  warnings: string[];
  effects: EffectView[];
}

export interface AttemptView {
  number: number;
  created: number;
  started: number | null;
  ended: number | null;
  workers: WorkerView[];
  exit_codes: (number | null)[];
  reason: string;
  /** why it ended, or is ending; after resized and moved the next attempt begins at once */
  ending: Ending | null;
}

/**
 * A change of the pool that was made, or of somebody else's job or session; user is null for the pool file that
 * the service is started with.
 */
export interface AuditEntry {
  action: 'add' | 'change' | 'remove';
  kind: 'node_pool' | 'project' | 'user' | 'settings' | 'pool' | 'job' | 'session';
  name: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  id: number;
  at: number;
  user: string | null;
}

/** Newest first; next is after of the page that follows, null where there is none. */
export interface AuditPage {
  entries: AuditEntry[];
  next: number | null;
}

/** One line of a preview: what would be added, changed or removed. */
export interface Change {
  action: 'add' | 'change' | 'remove';
  kind: 'node_pool' | 'project' | 'user' | 'settings' | 'pool' | 'job' | 'session';
  name: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
}

/** What a job gets where it says nothing. */
export interface DefaultsEntry {
  /** per worker */
  gpus: number | null;
  /** per worker */
  cpus: number | null;
  /** per worker */
  memory_gib: number | null;
  priority: number | null;
  preemptible: boolean | null;
  /** seconds */
  min_runtime: number | null;
  /** seconds */
  max_runtime: number | null;
  /** seconds */
  idle_timeout: number | null;
  /** seconds */
  grace: number | null;
  retries: number | null;
  gpu_types: string[] | null;
  /** in order of preference */
  node_pools: string[] | null;
}

/**
 * One output message of a job, as nbformat has it; also update_display_data and clear_output.
 *
 * log and display are how far the reader has come with it: passed on with attempt, they go on after it.
 */
export interface DisplayLine {
  attempt: number;
  log: number;
  display: number;
  output: Record<string, unknown>;
}

/**
 * What would happen to a job if it were submitted now. Where it would wait, reason says why; where it starts in
 * GPUs that others hold, after is how many have to stop or shrink first.
 */
export interface DryRunView {
  starts: boolean;
  after: number;
  /** its project would hold more than its guarantee: others may get its GPUs back */
  over_quota: boolean;
  reason: string;
  estimated_start: number | null;
  /** the range in which it is likely to start, by how good … */
  earliest_start: number | null;
  /** … such estimates have been; null: too few to say */
  latest_start: number | null;
  /** where the look ahead has seen so far, and no start until then */
  not_before: number | null;
}

/** What would happen at once to some jobs of a project; ids names the first 20 of them. */
export interface EffectView {
  action: 'stop' | 'move' | 'resize' | 'start';
  project: string;
  jobs: number;
  /** that they hold now, or would hold once they have started */
  gpus: number;
  ids: string[];
}

/**
 * Why an attempt ended, or is ending: it is known at the latest when its last worker is gone.
 *
 * stopped is its owner's wish (pause or cancel), preempted the plan's, overran its longest run time, idle that
 * it left its GPUs idle for too long. After resized and moved the next attempt begins at once, with more or fewer
 * workers or in other places. lost is nobody's fault that we know: a worker, its supervisor or its node is gone.
 */
export type Ending = 'succeeded' | 'failed' | 'overran' | 'idle' | 'stopped' | 'preempted' | 'resized' | 'moved' | 'lost';

/** Which kind of workload a node pool serves. */
export type Environment = 'build' | 'train';

/** GPUs of one environment. */
export interface EnvironmentTotals {
  gpus: number;
  allocated: number;
  over_quota: number;
  free: number;
  /** GPUs used outside the pool */
  foreign: number;
}

/**
 * One message of GET /events (id, event: kind, data: this).
 *
 * kind is one of job.submitted, job.state, job.deleted, session.state, project.changed, pool.changed: a line of the
 * append-only record, which is told once to whoever resumes after the one before. The view of the thing as it is now
 * comes along where there is one and the caller may see it.
 *
 * Besides, a listener is told job.reason (a job that waits has another place in line, or waits for something else) or,
 * where it keeps a view, stream.begin (data.resumed is false where all lists have to be read again) and view.figures
 * (data is ViewFigures). These are no lines of the record, and come at most every few seconds.
 */
export interface Event {
  id: number;
  at: number;
  kind: string;
  subject: string;
  data: Record<string, unknown>;
  job: JobView | null;
  session: SessionView | null;
}

export interface GpuView {
  index: number;
  memory_gib: number | null;
  used_memory_gib: number | null;
  /** 0 to 1; null where nobody can measure it */
  utilisation: number | null;
  /** the share that is used outside the pool */
  foreign: number;
  /** so many times as long as on its like do jobs take here */
  slowness: number;
  occupants: Occupant[];
}

/** Some workers of a gang, of one shape of their own: a launcher, say, or parameter servers. */
export interface GroupSubmit {
  name: string;
  workers: number;
  /** per worker; a fraction is at most one GPU */
  gpus: number;
  /** instead of gpus: memory on one GPU */
  gpu_memory_gib: number | null;
  cpus: number | null;
  memory_gib: number | null;
  /** when its workers have ended well the job has succeeded, and the others are stopped */
  leader: boolean;
}

/** From at, a project is guaranteed another number of GPUs. */
export interface GuaranteeChangeView {
  at: number;
  /** null: without bound */
  guaranteed: number | null;
}

/** What a job runs: a notebook cell, a script, a whole notebook or any command. */
export type JobKind = 'cell' | 'script' | 'notebook' | 'command';

export interface JobPage {
  jobs: JobView[];
  /** pass as after for the next page */
  next: string | null;
}

/** queued → starting → running → (stopping → queued again | succeeded | failed | cancelled), and paused. */
export type JobState = 'queued' | 'starting' | 'running' | 'stopping' | 'paused' | 'succeeded' | 'failed' | 'cancelled';

/**
 * A job as its owner, a member of its project or an administrator sees it.
 *
 * mine is true for the owner, who alone may read logs and outputs. position counts from 1 in the project's queue.
 */
export interface JobView {
  id: string;
  name: string;
  project: string;
  user: string;
  mine: boolean;
  kind: JobKind;
  state: JobState;
  reason: string;
  /** what a running job is told is going to happen to it: that it will be paused */
  notice: string;
  blocked_by: Record<string, unknown> | null;
  position: number | null;
  estimated_start: number | null;
  submitted: number;
  started: number | null;
  ended: number | null;
  gpus: number;
  workers: number;
  min_workers: number;
  groups: GroupSubmit[];
  total_gpus: number;
  priority: number;
  preemptible: boolean;
  over_quota: boolean;
  attempts: AttemptView[];
  outputs: string[];
  exit_code: number | null;
  /** what its owner sent it to come after; others see none */
  after: string[];
  /** the array that it is one of */
  array: string | null;
  index: number | null;
  parameters: Record<string, boolean | number | string>;
  /** the range in which it is likely to start, by how good … */
  earliest_start: number | null;
  /** … such estimates have been; null: too few to say */
  latest_start: number | null;
}

/** The most that a job may ask for. */
export interface MaximaEntry {
  /** per worker */
  gpus: number | null;
  /** per worker */
  cpus: number | null;
  /** per worker */
  memory_gib: number | null;
  /** all workers together */
  total_gpus: number | null;
  workers: number | null;
  priority: number | null;
  /** seconds */
  min_runtime: number | null;
  /** seconds */
  max_runtime: number | null;
  /** seconds */
  idle_timeout: number | null;
  /** seconds */
  grace: number | null;
  retries: number | null;
}

export interface Me {
  name: string;
  admin: boolean;
  scopes: ('read' | 'submit' | 'admin')[];
  build_quota: number;
  /** those that take the caller's jobs, the default one first */
  projects: string[];
}

/** What a job has reported: each point has its time, attempt and rank, and what job.report() was given. */
export interface MetricsPage {
  points: Record<string, unknown>[];
  /** pass as offset for what comes later */
  next: number;
}

export interface NodeDrain {
  /** why the node is to get no new work */
  reason: string;
}

export interface NodeView {
  name: string;
  node_pool: string;
  environment: Environment;
  gpu_type: string | null;
  schedulable: boolean;
  /** why an administrator has drained it; null: nobody has */
  drained: string | null;
  declared: boolean;
  gpus: GpuView[];
}

/** Who holds (a share of) a GPU. What the caller may not see of it is null. */
export interface Occupant {
  kind: 'session' | 'job';
  id: string | null;
  name: string | null;
  project: string | null;
  user: string | null;
  share: number;
  over_quota: boolean;
}

export interface OutputFile {
  path: string;
  size: number;
  modified: number;
}

export interface OutputList {
  files: OutputFile[];
}

/**
 * How a project stands in a part of the pool that is shared out by itself; the rest has neither node pool nor
 * type.
 */
export interface PartView {
  node_pool: string | null;
  gpu_type: string | null;
  guaranteed: number | null;
  fair_share: number;
  allocated: number;
  demand: number;
  over_quota: number;
}

/** Rules for the jobs of a project and of all below it; what is absent is not ruled. */
export interface PolicyEntry {
  defaults: DefaultsEntry;
  maxima: MaximaEntry;
  allowed: AllowedEntry;
}

export interface PoolFigures {
  build: EnvironmentTotals;
  train: EnvironmentTotals;
  waiting: number;
}

export interface PoolView {
  /** true where the GPUs are declared, not found by NVML */
  declared: boolean;
  build: EnvironmentTotals;
  train: EnvironmentTotals;
  waiting: number;
  nodes: NodeView[];
}

/** application/problem+json (RFC 9457): detail is the sentence for people, field the input at fault. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  field: string | null;
}

export interface ProjectEntry {
  name: string;
  parent: string | null;
  /** GPUs; null: without bound */
  guaranteed: number | null;
  /** GPUs; null: none */
  limit: number | null;
  /** absent: the guarantee, or 1 where that is 0 */
  weight: number | null;
  priority: number;
  /** user names; "*": everybody */
  members: string[];
  /** JupyterHub groups */
  groups: string[];
  policy: PolicyEntry;
  /** what it has of a node pool or of a type of GPU */
  quotas: QuotaEntry[];
  /** of its jobs of one priority; null: that of the project above, or of the settings */
  order: QueueOrder | null;
  /** CPUs; null: those that come with the GPUs that it is guaranteed */
  guaranteed_cpus: number | null;
  /** CPUs; null: none */
  limit_cpus: number | null;
  /** memory; null: what comes with the GPUs that it is guaranteed */
  guaranteed_memory_gib: number | null;
  /** memory; null: none */
  limit_memory_gib: number | null;
  /** times at which another number of GPUs is guaranteed */
  windows: WindowEntry[];
}

export interface ProjectList {
  projects: ProjectView[];
}

/**
 * Amounts in GPUs. could_start is how many more would start now.
 *
 * guaranteed_in_all has what quotas guarantee, too; parts is empty where the whole pool is shared out as one.
 * guaranteed is outside windows, and guaranteed_now and guaranteed_in_all are what is in force.
 */
export interface ProjectView {
  name: string;
  parent: string | null;
  guaranteed: number | null;
  guaranteed_in_all: number | null;
  limit: number | null;
  weight: number | null;
  priority: number;
  members: string[];
  groups: string[];
  policy: PolicyEntry;
  quotas: QuotaEntry[];
  /** null: that of the project above, or of the settings */
  order: QueueOrder | null;
  /** null: those that come with its guaranteed GPUs */
  guaranteed_cpus: number | null;
  limit_cpus: number | null;
  /** null: what comes with its guaranteed GPUs */
  guaranteed_memory_gib: number | null;
  limit_memory_gib: number | null;
  windows: WindowEntry[];
  /** null: without bound */
  guaranteed_now: number | null;
  /** the next ones of guaranteed_now */
  changes: GuaranteeChangeView[];
  /** of jobs that ask for CPUs */
  allocated_cpus: number;
  /** of jobs that ask for memory */
  allocated_memory_gib: number;
  parts: PartView[];
  takes_jobs: boolean;
  fair_share: number;
  allocated: number;
  demand: number;
  over_quota: number;
  could_start: number;
  /** GPUs held on average, where what is past counts less and less (usage_half_life) */
  recent_use: number;
  running: number;
  waiting: number;
}

/**
 * Which of a project's jobs of one priority is next: the older one, or that of the user who uses least of the
 * project now, then the one that was served least.
 */
export type QueueOrder = 'arrival' | 'served';

/**
 * What a project has of the GPUs of a node pool, of a type, or of a type in a node pool.
 *
 * Of a part of which something is guaranteed to any project, only these guarantees count; guaranteed of a project is
 * for the rest of the pool.
 */
export interface QuotaEntry {
  node_pool: string | null;
  gpu_type: string | null;
  /** GPUs; null: nothing is said */
  guaranteed: number | null;
  /** GPUs; null: none of its own */
  limit: number | null;
}

/**
 * What a server's pod must have: it is in namespace, has labels and tolerations, and leaves its node to the
 * scheduler of that name (schedulerName); its container has limits.
 */
export interface ServerPodView {
  namespace: string;
  labels: Record<string, string>;
  scheduler: string;
  limits: Record<string, string>;
  tolerations: Record<string, unknown>[];
}

export interface SessionList {
  sessions: SessionView[];
}

/** A session waits for its plan, holds its lease, or is over. */
export type SessionState = 'requested' | 'leased' | 'ended';

/**
 * env is what the server's process must have (CUDA_VISIBLE_DEVICES, RUNAI_GPUS); pod what its pod must,
 * where the scheduler places servers on a Kubernetes cluster.
 */
export interface SessionView {
  id: string;
  user: string;
  server: string;
  state: SessionState;
  reason: string;
  gpus: number;
  workers: WorkerView[];
  env: Record<string, string>;
  pod: ServerPodView | null;
  declared: boolean;
  requested: number;
  started: number | null;
}

/**
 * What the listener shows from now on: of these jobs it is told their place in line and when they are likely to
 * start.
 */
export interface StreamShows {
  jobs: string[];
}

/** Rows by the start of their period. since is the start of the first one. */
export interface UsageReport {
  since: number;
  until: number;
  by: ('environment' | 'project' | 'user' | 'gpu_type')[];
  every: 'hour' | 'day' | 'week' | 'month' | null;
  rows: UsageRow[];
}

/**
 * What was used in one period, or in the whole span, by those who have these in common; what it is not grouped by
 * is null.
 */
export interface UsageRow {
  /** when the period begins; null: the whole span */
  start: number | null;
  environment: Environment | null;
  /** empty for sessions */
  project: string | null;
  /** empty for the smallest users of a period with a thousand of them */
  user: string | null;
  /** empty where it is not known */
  gpu_type: string | null;
  /** GPU-hours allocated */
  gpu_hours: number;
  /** those of which it was measured how busy the GPUs were … */
  measured_gpu_hours: number;
  /** … and those of these in which they were idle */
  idle_gpu_hours: number;
  /** attempts and sessions that began */
  starts: number;
  /** for how long they had waited on average; null where none began */
  mean_wait: number | null;
  longest_wait: number;
  /** attempts that were stopped for others */
  reclaims: number;
  /** work that was stopped after the last checkpoint seen */
  lost_gpu_hours: number;
}

/** What has changed of what a listener shows; null: nothing of it has. */
export interface ViewFigures {
  me: Me | null;
  pool: PoolFigures | null;
  projects: ProjectView[] | null;
  jobs: WaitingView[] | null;
}

/** What a job that waits may expect. */
export interface WaitingView {
  id: string;
  /** absent where it is the same as before */
  reason: string | null;
  position: number | null;
  estimated_start: number | null;
  earliest_start: number | null;
  latest_start: number | null;
}

/**
 * A time at which the project is guaranteed another number of GPUs. A window that does not end after it begins
 * ends on the next day; days, first and last are those on which it begins.
 */
export interface WindowEntry {
  /** of the week, such as mon-fri or tue,fri */
  days: string;
  /** by the clocks of the time zone */
  from: string;
  /** by the clocks of the time zone */
  to: string;
  /** the first date; null: none */
  first: string | null;
  /** the last date; null: none */
  last: string | null;
  /** a name of the IANA database, such as Europe/Berlin */
  timezone: string;
  /** GPUs; null: without bound */
  guaranteed: number | null;
}

export interface WorkerView {
  rank: number;
  node: string;
  gpus: number[];
  share: number;
}
