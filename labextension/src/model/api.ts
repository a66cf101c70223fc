// Made by scripts/api_types.py from scheduler/schema/: change that file, not this one.

/** The values that a job may choose from. */
export interface AllowedEntry {
  gpu_types: string[] | null;
  node_pools: string[] | null;
  preemptible: boolean[] | null;
}

/**
 * The result of applying a pool file or of a preview. warnings are sentences for the administrator, such as that
 * build quotas exceed the build GPUs. A preview has the effects that the change would have now.
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
  /** since when its workers are being stopped; null: they were not */
  stopping: number | null;
  ended: number | null;
  workers: WorkerView[];
  exit_codes: (number | null)[];
  reason: string;
  /** why it ended or is ending; after resized and moved the next attempt starts immediately */
  ending: Ending | null;
}

/**
 * A change that was made to the pool, or to another user's job or session, or a GPU that has failed or works again.
 * user is null for changes by the pool file that the service is started with, for what its settings bring about, and
 * for GPUs.
 */
export interface AuditEntry {
  action: 'add' | 'change' | 'remove';
  kind: 'node_pool' | 'project' | 'user' | 'group' | 'settings' | 'pool' | 'job' | 'session' | 'gpu';
  name: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
  id: number;
  at: number;
  user: string | null;
}

/** Newest first. Pass next as after for the next page; null: this is the last one. */
export interface AuditPage {
  entries: AuditEntry[];
  next: number | null;
}

export interface BuildQuotaEntry {
  /** GPUs that a user may hold for building */
  gpus: number;
}

/** One line of a preview: what would be added, changed or removed. */
export interface Change {
  action: 'add' | 'change' | 'remove';
  kind: 'node_pool' | 'project' | 'user' | 'group' | 'settings' | 'pool' | 'job' | 'session' | 'gpu';
  name: string;
  before: Record<string, unknown> | null;
  after: Record<string, unknown> | null;
}

/** What a declared GPU is shown to do while a job holds it. It is marked as declared, and no decision uses it. */
export interface DeclaredLoadEntry {
  use: number;
  memory_gib: number;
  used_memory_gib: number;
  power_watts: number;
  /** °C */
  temperature: number;
}

/** Values for what a job does not specify. */
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
 * The GPUs that jobs hold or wait for, by the hour: the last week (history, up to start) and the forecast of
 * the next one (hours, from start on) from so many weeks. Empty while the record is shorter than a week.
 */
export interface DemandForecast {
  capacity: number;
  start: number;
  history: number[];
  hours: ForecastHour[];
  weeks: number;
  /** in GPUs, of the forecast of last week from the weeks before; null if there are none */
  mean_absolute_error: number | null;
  /** the share of the hours of last week that were in the range */
  within_range: number | null;
}

/**
 * One output message of a job, in the format of nbformat, or an update_display_data or clear_output.
 *
 * log and display are the position after it: pass them with attempt to continue there.
 */
export interface DisplayLine {
  attempt: number;
  log: number;
  display: number;
  output: Record<string, unknown>;
}

/**
 * What would happen to a job if it were submitted now. If it would wait, reason says why. If it would start on
 * GPUs that others hold, after is the number of jobs that must stop or shrink first.
 */
export interface DryRunView {
  starts: boolean;
  after: number;
  /** its project would hold more than its guarantee, and its GPUs could be reclaimed */
  over_quota: boolean;
  reason: string;
  estimated_start: number | null;
  /** start of the range in which it is likely to start, … */
  earliest_start: number | null;
  /** … and its end, from the accuracy of earlier estimates; null: too few of them */
  latest_start: number | null;
  /** the time until which the forecast has seen no start */
  not_before: number | null;
}

/** What would happen immediately to some jobs of a project; ids has the first 20 of them. */
export interface EffectView {
  action: 'stop' | 'move' | 'resize' | 'start';
  project: string;
  jobs: number;
  /** GPUs that they hold now, or would hold after they have started */
  gpus: number;
  ids: string[];
}

/**
 * Why an attempt ended or is ending; known at the latest when its last worker has ended.
 *
 * stopped: by its owner (pause or cancel). preempted: by a plan. overran: it reached its maximum run time.
 * idle: it left its GPUs idle for too long. After resized and moved the next attempt starts at once, with more
 * or fewer workers or on other GPUs. lost: a worker, its supervisor or its node is gone, for no known fault.
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
  /** GPUs that fail and get no work */
  failing: number;
}

/**
 * One message of GET /events (id, event: kind, data: this).
 *
 * kind is job.submitted, job.state, job.deleted, session.state, project.changed, pool.changed, gpu.failed,
 * gpu.recovered, schedule.changed or schedule.deleted for an entry of the append-only event log, which a listener that
 * resumes after the previous entry receives once. The event includes the current view of the job or session, if there
 * is one and the caller may see it.
 *
 * A listener also receives job.reason (a waiting job has a new position, or waits for something else) and,
 * if it keeps a view, stream.begin (data.resumed is false if it must read all lists again), view.figures (data
 * is ViewFigures) and view.written (data is ViewWritten). These are not entries of the log, and are bounded in
 * number.
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

/**
 * Why a job is in its state, according to the latest plan. reason is for people, blocked_by for programs.
 *
 * While it waits, it is number position of the waiting jobs of its project, holders hold the GPUs that it waits
 * for, free of these GPUs are free, and any one of remedies would help it to start earlier.
 */
export interface Explanation {
  id: string;
  name: string;
  project: string;
  state: JobState;
  /** what the latest plan does with it; null before the first plan */
  action: string | null;
  reason: string;
  /** for a job that is paused for another job of its project: whose, and how long */
  notice: string;
  blocked_by: Record<string, unknown> | null;
  position: number | null;
  waiting: number;
  estimated_start: number | null;
  /** the time until which the forecast has seen no start */
  not_before: number | null;
  /** what the estimated start is based on, or why there is none */
  estimate: string;
  expected_runtime: number | null;
  /** declared by the owner, learned from similar jobs, or the maximum run time */
  runtime_source: 'declared' | 'learned' | 'limit' | null;
  /** how fast similar jobs ran on each type of GPU, the fastest first */
  speeds: SpeedView[];
  /** the same as a sentence, if there is something to compare */
  speed: string;
  /** how the recent use of its project counts, if it does */
  recent_use: string;
  /** start of the range in which it is likely to start, … */
  earliest_start: number | null;
  /** … and its end, from the accuracy of earlier estimates; null: too few of them */
  latest_start: number | null;
  /** nine out of ten similar jobs ran longer … */
  shortest_runtime: number | null;
  /** … and nine out of ten shorter, measured in this many similar_runs */
  longest_runtime: number | null;
  similar_runs: number;
  /** for a running elastic job: its size, and when it may grow */
  size: string;
  /** number of other jobs that must stop or shrink first */
  after: number;
  free: number;
  holders: Holder[];
  remedies: Remedy[];
  /** the sentences of remedies */
  would_help: string[];
}

/** A large file of the working directory, made of blobs, so that unchanged parts are uploaded only once. */
export interface FileSubmit {
  /** path relative to the working directory, with / as separator */
  path: string;
  blobs: string[];
  executable: boolean;
}

export interface ForecastHour {
  low: number;
  median: number;
  high: number;
}

/** How the workers of a job find each other: in the way that the framework's scripts expect, or not at all. */
export type Framework = 'none' | 'torch' | 'tensorflow' | 'horovod' | 'jax' | 'mpi';

/** The Git repository that a job is submitted from. */
export interface GitSubmit {
  commit: string;
  /** empty where no branch is checked out */
  branch: string;
  /** number of its files that differ from the commit */
  changed: number;
}

/** The use of a GPU, where it is measured; as in GpuView. */
export interface GpuFigures {
  node: string;
  index: number;
  utilisation: number | null;
  used_memory_gib: number | null;
}

/** The use of a GPU over time, oldest first. Spans in which nothing was measured are left out. */
export interface GpuHistory {
  node: string;
  gpu: number;
  /** false if the use of this GPU is not measured, as of a declared one */
  measured: boolean;
  /** the figures are those that the pool file declares: nothing is measured */
  declared: boolean;
  since: number;
  until: number;
  /** the length of each span, in seconds */
  step: number;
  points: GpuPoint[];
}

/** What a GPU reports; null where it does not. */
export interface GpuMeasures {
  index: number;
  /** why the GPU fails and gets no work; null: it works */
  failure: string | null;
  /** 0 to 1 */
  utilisation: number | null;
  memory_gib: number | null;
  used_memory_gib: number | null;
  power_watts: number | null;
  /** in °C */
  temperature: number | null;
  /** why its clocks are below their maximum */
  throttle_reasons: string[];
  /** memory errors (ECC) since the last reset of the GPU */
  corrected_errors: number | null;
  uncorrected_errors: number | null;
  processes: GpuProcessView[];
}

/** The use of a GPU in one span of the history; null where it was not measured. */
export interface GpuPoint {
  /** seconds since 1970 */
  start: number;
  /** the mean, 0 to 1 */
  utilisation: number | null;
  most_utilisation: number | null;
  used_memory_gib: number | null;
  power_watts: number | null;
  /** the mean, in °C */
  temperature: number | null;
  most_temperature: number | null;
  /** the part of the time in which heat or power slowed the GPU, 0 to 1 */
  slowed: number | null;
  throttle_reasons: string[];
  corrected_errors: number;
  uncorrected_errors: number;
  /** an error (Xid) that the driver reported */
  xid: number | null;
}

/** A process that uses a GPU. Only administrators, and those who may see its job or session, see which one it is. */
export interface GpuProcessView {
  pid: number | null;
  memory_gib: number | null;
  /** null: it belongs to no job and no session on this GPU */
  kind: 'job' | 'session' | null;
  id: string | null;
  user: string | null;
}

export interface GpuView {
  index: number;
  memory_gib: number | null;
  used_memory_gib: number | null;
  /** 0 to 1; null if it cannot be measured */
  utilisation: number | null;
  /** its use is what the pool file declares: nothing is measured */
  declared: boolean;
  /** share that is used outside the pool */
  foreign: number;
  /** why the GPU fails and gets no work; null: it works */
  failure: string | null;
  /** how many times as long jobs take here as on other GPUs of its type */
  slowness: number;
  occupants: Occupant[];
}

/** Workers of one shape in a gang, such as a launcher or parameter servers. */
export interface GroupSubmit {
  name: string;
  workers: number;
  /** GPUs for each worker, or a fraction of one GPU */
  gpus: number;
  /** memory on one GPU for each worker, instead of gpus */
  gpu_memory_gib: number | null;
  cpus: number | null;
  memory_gib: number | null;
  /** the job has succeeded when the workers of this group have succeeded; the others are then stopped */
  leader: boolean;
}

/** A group with a build quota or with users. */
export interface GroupView {
  name: string;
  /** build quota of each of its users; null: none */
  build_quota: number | null;
  users: number;
}

/** A scheduled change of a project's guarantee, which takes effect at at. */
export interface GuaranteeChangeView {
  at: number;
  /** null: unlimited */
  guaranteed: number | null;
}

/**
 * The GPUs that a job waits for and that one project (null: the sessions) holds.
 *
 * jobs are those that the caller may see, in the order in which they would be stopped for other projects.
 */
export interface Holder {
  project: string | null;
  gpus: number;
  over_quota: number;
  jobs: HolderJob[];
}

/** A job that holds GPUs. expected_end is null if its run time is unknown. */
export interface HolderJob {
  id: string;
  name: string;
  user: string;
  gpus: number;
  over_quota: boolean;
  expected_end: number | null;
}

/** What happens at last to a notebook server that stays idle. */
export type IdleAction = 'stop' | 'take_back';

/** Idle rules for some users or groups of JupyterHub; absent ones are as for everybody. */
export interface IdleExceptionEntry {
  users: string[];
  groups: string[];
  timeout: number | null;
  grace: number | null;
  lend: number | null;
  action: IdleAction | null;
}

/**
 * What stands between the workloads that have parts of one GPU.
 *
 * memory-limit is time-slicing with limits of the driver; watcher is time-slicing where the scheduler ends those
 * that use more memory than they have been given.
 */
export type Isolation = 'unknown' | 'mig' | 'mps' | 'time-slicing' | 'memory-limit' | 'watcher';

/** Unfinished jobs: running includes those that start, stopping also those that save and pause. */
export interface JobCounts {
  running: number;
  stopping: number;
  waiting: number;
  paused: number;
}

/**
 * The use of the GPUs of an attempt from its start to its end, or until now: the first 64 of those that it held, in
 * the order of ranks. attempt is 0 where it has not started.
 */
export interface JobGpuUse {
  attempt: number;
  since: number;
  until: number;
  /** the length of each span, in seconds; 0: no GPU was measured */
  step: number;
  /** the number of GPUs */
  held: number;
  /** the figures are those that the pool file declares: nothing is measured */
  declared: boolean;
  /** it held a part of a GPU: the figures are those of the whole GPU */
  shared: boolean;
  gpus: WorkerGpuUse[];
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

/** The body of POST /jobs. The owner of the job is the caller. */
export interface JobSubmit {
  /** name of the job */
  name: string | null;
  /** project of the job */
  project: string | null;
  kind: JobKind;
  /** argv; no shell is involved */
  command: string[];
  /** a tar.gz uploaded to /blobs, which is unpacked as the working directory */
  bundle: string | null;
  /** files of the working directory that are not in the bundle */
  files: FileSubmit[];
  /** set an environment variable of the job */
  env: Record<string, string>;
  /** variables that the cell returns */
  outputs: string[];
  /** GPUs for each worker, or a fraction of one GPU */
  gpus: number;
  /** memory on one GPU for each worker, instead of a number of GPUs */
  gpu_memory_gib: number | null;
  /** types of GPU that the job accepts */
  gpu_types: string[] | null;
  /** CPUs for each worker */
  cpus: number | null;
  /** memory for each worker */
  memory_gib: number | null;
  /** number of workers */
  workers: number;
  /** start with this many workers, and add more as GPUs become free */
  min_workers: number | null;
  /** conventions by which the workers find each other */
  framework: Framework;
  /** workers of several shapes, which start together, instead of equal workers */
  groups: GroupSubmit[];
  /** node pools that the job may use, in order of preference */
  node_pools: string[] | null;
  /** on Kubernetes, the container image that the workers run in */
  image: string | null;
  /** priority within the project; the highest starts first */
  priority: number;
  /** false: never stop it for other jobs; it must fit into the project's guarantee */
  preemptible: boolean;
  /** place all workers within one node, rack or other level of the topology */
  require: string | null;
  /** place all workers within one node, rack or other level where that is possible */
  prefer: string | null;
  /** do not preempt an attempt before it has run for this time */
  min_runtime: number;
  /** stop an attempt after this time */
  max_runtime: number | null;
  /** stop the job when its GPUs have been idle for this time */
  idle_timeout: number | null;
  /** estimate of the run time, from which start times are predicted */
  expected_runtime: number | null;
  /** time between SIGTERM and SIGKILL when an attempt is stopped */
  grace: number;
  /** number of times to try again after a failure */
  retries: number;
  /** start when these jobs or arrays have succeeded, or, with :any after an id, when they have ended */
  after: string[];
  parameters: Record<string, boolean | number | string>;
  /** where the files are from */
  git: GitSubmit | null;
  /** where the job is submitted from */
  cell: NotebookCellSubmit | null;
  /** the job gets a token, in RUNAI_TOKEN, with which it may submit jobs, and read and cancel these */
  may_submit: boolean;
}

/**
 * A job as its owner, a member of its project or an administrator sees it.
 *
 * mine is true for the owner; only the owner may read logs and outputs. position is the position in the project's
 * queue, from 1.
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
  /** for a running job, what is going to happen to it, such as that it will be paused; for a job that is paused for another job of its project, whose job that is and for how long */
  notice: string;
  /** how a job on a part of a GPU is isolated from others on the same GPU */
  isolation: string;
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
  /** jobs and arrays that it starts after; only its owner sees them */
  after: string[];
  /** id of its array */
  array: string | null;
  index: number | null;
  /** number of jobs that were submitted as that array */
  array_size: number | null;
  parameters: Record<string, boolean | number | string>;
  /** id of the schedule that it is a run of; only its owner sees it */
  schedule: string | null;
  /** when it last saved a checkpoint; null: not yet */
  checkpointed: number | null;
  /** start of the range in which it is likely to start, … */
  earliest_start: number | null;
  /** … and its end, from the accuracy of earlier estimates; null: too few of them */
  latest_start: number | null;
}

/** The latest value of each metric that a job's first worker has reported, and its latest step. */
export interface LatestReport {
  job: string;
  point: Record<string, unknown>;
}

/** In the order of the request, without the jobs that have reported nothing. */
export interface LatestReports {
  reports: LatestReport[];
}

/**
 * When a worker's log had which length: times are pairs of bytes and seconds since the epoch, both ascending and
 * precise to about a second. A line was written by the first of these times at which the log had its last byte.
 */
export interface LogTimes {
  times: [number, number][];
}

/** The largest values that a job may request. */
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
  /** projects that the caller may submit jobs to, the default one first */
  projects: string[];
  /** the caller's own jobs */
  jobs: JobCounts;
  /** the jobs of all projects whose jobs the caller may see */
  team_jobs: JobCounts;
}

/** The metrics that a job has reported. Each point has a time, attempt, rank and the reported values. */
export interface MetricsPage {
  points: Record<string, unknown>[];
  /** pass as offset to read later points */
  next: number;
}

export interface NodeDrain {
  /** why the node gets no new work */
  reason: string;
}

/** The GPUs of a node, as they were a few seconds ago. */
export interface NodeGpus {
  node: string;
  /** false if the use of these GPUs is not measured, as of declared ones */
  measured: boolean;
  /** the figures are those that the pool file declares: nothing is measured */
  declared: boolean;
  /** what stands between workloads that have parts of one GPU */
  isolation: Isolation;
  gpus: GpuMeasures[];
}

export interface NodeMove {
  /** the node pool that the node belongs to from now on */
  node_pool: string;
}

export interface NodePoolEntry {
  name: string;
  environment: Environment;
  placement: PlacementStyle;
  /** on a single machine, the number of its GPUs; absent: the remaining ones */
  gpus: number | null;
}

export interface NodeView {
  name: string;
  node_pool: string;
  environment: Environment;
  gpu_type: string | null;
  schedulable: boolean;
  /** why an administrator has drained it; null: it is not drained */
  drained: string | null;
  declared: boolean;
  /** into how many parts each GPU is divided: 1: it is given whole; 0: any share of it is given */
  gpu_parts: number;
  /** what stands between workloads that have parts of one GPU */
  isolation: Isolation;
  gpus: GpuView[];
}

/** The cell that a job is submitted from. */
export interface NotebookCellSubmit {
  /** path below the root folder of the notebook server, with / */
  notebook: string;
  id: string;
}

export type NoticeChannel = 'none' | 'email' | 'webhook' | 'slack' | 'teams';

/**
 * What a notice is about. cancelled and paused are by others; warned precedes paused, and resumed follows
 * it.
 */
export type NoticeKind = 'failed' | 'succeeded' | 'cancelled' | 'warned' | 'paused' | 'resumed';

/**
 * The body of PUT /me/notices. cancelled and paused are by others; warned precedes paused,
 * resumed follows it.
 */
export interface NoticesChoice {
  /** where notices go; none: nowhere */
  channel: NoticeChannel;
  /** an e-mail address, or the URL of a webhook; null: the saved one of the channel */
  address: string | null;
  /** what to tell */
  events: NoticeKind[];
  /** tell a success only if it took at least this long from its submission */
  shortest_success: number;
}

export interface NoticesTested {
  delivered: boolean;
  /** what happened */
  message: string;
}

/** The choice of the caller, which nobody else sees. */
export interface NoticesView {
  /** where notices go; none: nowhere */
  channel: NoticeChannel;
  /** an e-mail address, or the host of a webhook, whose URL is a secret */
  address: string;
  /** what to tell */
  events: NoticeKind[];
  /** tell a success only if it took at least this long from its submission */
  shortest_success: number;
  /** notices that have not been delivered yet */
  waiting: number;
  /** why the last delivery failed; empty: it did not */
  problem: string;
}

/** The session or job that holds a GPU or a share of one. Details that the caller may not see are null. */
export interface Occupant {
  kind: 'session' | 'job';
  id: string | null;
  name: string | null;
  project: string | null;
  user: string | null;
  share: number;
  over_quota: boolean;
}

export interface OutcomeView {
  jobs: number;
  mean_wait: number;
  median_wait: number;
  p95_wait: number;
  mean_completion: number;
  stops: number;
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
 * A project's amounts in one partition of the pool: the GPUs of a node pool, of a type, or of a type in a node
 * pool. Both are null for the rest of the pool.
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

/** Whether a node pool fills nodes one by one (keeping whole ones free) or spreads over them. */
export type PlacementStyle = 'pack' | 'spread';

/** Rules for the jobs of a project and of all projects below it; an absent key sets no rule. */
export interface PolicyEntry {
  defaults: DefaultsEntry;
  maxima: MaximaEntry;
  allowed: AllowedEntry;
}

/** First the rules for all projects, then those of each project in the order of the pool file. */
export interface PolicyList {
  policies: PolicyView[];
}

/** All rules that hold for the jobs of a project, its own and inherited ones; null: those for all projects. */
export interface PolicyView {
  project: string | null;
  rules: RuleView[];
}

export interface PoolFigures {
  build: EnvironmentTotals;
  train: EnvironmentTotals;
  waiting: number;
}

/** The pool file, a YAML file that jupyter runai apply -f pool.yaml applies. */
export interface PoolFile {
  node_pools: NodePoolEntry[];
  projects: ProjectEntry[];
  users: UserEntry[];
  default_build_quota: number;
  /** the build quotas of users may exceed the number of build GPUs */
  build_overcommit: boolean;
  /** days after which an ended job and all its files are deleted; null: never */
  keep_days: number | null;
  /** unfinished jobs that each user may have; null: any number */
  max_jobs_per_user: number | null;
  /** files that each user may have uploaded for jobs; null: any amount */
  max_upload_gib_per_user: number | null;
  /** rules for the jobs of all projects */
  policy: PolicyEntry;
  topology: string[];
  /** nodes that get no new work, with the reason for each; absent: the nodes that are drained now */
  drained: Record<string, string> | null;
  /** nodes in another node pool than that of their label or machine, with the node pool of each; absent: the nodes that are moved now */
  moved: Record<string, string> | null;
  settings: SettingsEntry;
  /** build quotas of the users of JupyterHub groups; the largest one applies */
  groups: UserGroupEntry[];
}

/** The pool over time. A period lasts step seconds; periods without a record are left out. */
export interface PoolHistory {
  since: number;
  until: number;
  step: number;
  points: PoolPoint[];
}

/** One period of the pool's history: averages in GPUs and jobs, null where they were not recorded. */
export interface PoolPoint {
  start: number;
  allocated: number | null;
  /** allocated GPUs whose utilisation was measured and that were not idle … */
  used: number | null;
  /** … and that were idle; null if none was measured */
  idle: number | null;
  /** jobs in the queue */
  queued: number | null;
  /** number of attempts of jobs that started */
  starts: number;
  /** average time that they had waited; null if none started */
  mean_wait: number | null;
  longest_wait: number;
}

export interface PoolView {
  /** true if the GPUs are declared instead of found by NVML */
  declared: boolean;
  build: EnvironmentTotals;
  train: EnvironmentTotals;
  waiting: number;
  nodes: NodeView[];
}

/** application/problem+json (RFC 9457): detail is a sentence for people; field names the invalid input. */
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
  /** GPUs; null: unlimited */
  guaranteed: number | null;
  /** GPUs; null: no limit */
  limit: number | null;
  /** absent: the guarantee, or 1 if that is 0 */
  weight: number | null;
  priority: number;
  /** user names; "*": everybody */
  members: string[];
  /** JupyterHub groups */
  groups: string[];
  policy: PolicyEntry;
  /** quotas of single node pools and types of GPU */
  quotas: QuotaEntry[];
  /** order of its jobs of the same priority; null: that of the parent project, or of the settings */
  order: QueueOrder | null;
  /** CPUs; null: those that come with its guaranteed GPUs */
  guaranteed_cpus: number | null;
  /** CPUs; null: no limit */
  limit_cpus: number | null;
  /** memory; null: what comes with its guaranteed GPUs */
  guaranteed_memory_gib: number | null;
  /** memory; null: no limit */
  limit_memory_gib: number | null;
  /** time windows in which the guarantee is different */
  windows: WindowEntry[];
}

export interface ProjectList {
  projects: ProjectView[];
}

/**
 * A project and its amounts in GPUs. could_start is the number of GPUs that one more job could start on now.
 *
 * guaranteed applies outside windows. guaranteed_now applies at present, and guaranteed_in_all is the total
 * with the guarantees of quotas. parts is empty if the pool has no partitions.
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
  /** null: the order of the parent project, or of the settings */
  order: QueueOrder | null;
  /** null: the CPUs that come with its guaranteed GPUs */
  guaranteed_cpus: number | null;
  limit_cpus: number | null;
  /** null: the memory that comes with its guaranteed GPUs */
  guaranteed_memory_gib: number | null;
  limit_memory_gib: number | null;
  windows: WindowEntry[];
  /** null: unlimited */
  guaranteed_now: number | null;
  /** the next changes of guaranteed_now */
  changes: GuaranteeChangeView[];
  /** CPUs held by jobs that request CPUs */
  allocated_cpus: number;
  /** memory held by jobs that request memory */
  allocated_memory_gib: number;
  parts: PartView[];
  takes_jobs: boolean;
  fair_share: number;
  allocated: number;
  demand: number;
  over_quota: number;
  could_start: number;
  /** average number of GPUs held; older use counts less (usage_half_life) */
  recent_use: number;
  running: number;
  waiting: number;
}

/**
 * Which of a project's jobs of the same priority is next: the oldest one, or that of the user who uses least of the
 * project now, and of this user's jobs the one that was served least.
 */
export type QueueOrder = 'arrival' | 'served';

/**
 * A project's quota of the GPUs of a node pool, of a type, or of a type in a node pool.
 *
 * If any project has a guarantee there, those GPUs form a partition, in which only such guarantees count; a project's
 * own guaranteed applies to the rest of the pool.
 */
export interface QuotaEntry {
  node_pool: string | null;
  gpu_type: string | null;
  /** GPUs; null: this quota sets no guarantee */
  guaranteed: number | null;
  /** GPUs; null: this quota sets no limit */
  limit: number | null;
}

/** What would help a job to start, and how the caller can bring it about; null: it is not in the caller's hands. */
export interface Remedy {
  sentence: string;
  action: RemedyAction | null;
}

/**
 * What the caller can do with a job: resume it, raise its priority, cancel it, or clone it, which is to
 * submit it again with these options.
 */
export interface RemedyAction {
  kind: 'resume' | 'priority' | 'cancel' | 'clone';
  job: string;
  /** of the job */
  name: string;
  /** the texts of options in the form; an empty text leaves the option out */
  options: Record<string, string>;
}

/** A rule that holds for jobs; source is the project that sets it, null: the rules for all projects. */
export interface RuleView {
  part: 'defaults' | 'maxima' | 'allowed';
  /** a key of that part of a policy */
  name: string;
  value: boolean | number | string[] | boolean[];
  source: string | null;
}

/** The body of PATCH /schedules/{schedule}: what is absent stays as it is. */
export interface ScheduleChange {
  name: string | null;
  cron: string | null;
  timezone: string | null;
  /** false pauses it; times that pass meanwhile are not made up for */
  active: boolean | null;
  job: JobSubmit | null;
}

/** By name. */
export interface ScheduleList {
  schedules: ScheduleView[];
}

/**
 * A schedule, as only its owner sees it.
 *
 * A run is skipped while the last one is unfinished. If the scheduler was down at some of its times, it runs once
 * afterwards.
 */
export interface ScheduleView {
  id: string;
  name: string;
  cron: string;
  timezone: string;
  active: boolean;
  /** why the scheduler paused it, or why its last run was skipped or has to wait */
  notice: string;
  created: number;
  /** null: it is paused, or never comes again */
  next_run: number | null;
  project: string;
  kind: JobKind;
  command: string[];
  /** where it was added from */
  cell: NotebookCellSubmit | null;
  /** its last run; null: there was none, or it has been deleted */
  last_job: JobView | null;
}

/**
 * What the pod of a notebook server must have. scheduler is its schedulerName; limits are the resource limits
 * of its container.
 */
export interface ServerPodView {
  namespace: string;
  labels: Record<string, string>;
  scheduler: string;
  limits: Record<string, string>;
  tolerations: Record<string, unknown>[];
}

/** line: the servers that wait in line for GPUs, the first one first. */
export interface SessionList {
  sessions: SessionView[];
  line: SessionView[];
}

/** A session waits for a plan, holds its lease, or has ended. */
export type SessionState = 'requested' | 'leased' | 'ended';

/**
 * A session. env has the environment variables that the server's process needs (CUDA_VISIBLE_DEVICES,
 * RUNAI_GPUS); pod describes its pod if the scheduler places servers on a Kubernetes cluster.
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
  /** since when nobody has used its GPUs, no kernel was busy and no person did anything, as far as it is known; null: it is in use, nobody can tell, or this is an event */
  idle_since: number | null;
  /** when the server is stopped, or its GPUs are taken back, an idle one unless it is used before; null: it was not warned */
  stops_at: number | null;
  /** at stops_at its GPUs are taken back, and it keeps running */
  takes_back: boolean;
  /** when its GPUs are lent to jobs, unless it is used before */
  lends_at: number | null;
  /** since when its GPUs are lent to jobs; null: they are not */
  lent_since: number | null;
  /** the GPUs that it lends, which its workers lack */
  lent: WorkerView[];
  /** since when it is used again, and the jobs on the GPUs that it lends are being stopped */
  recalled_since: number | null;
  /** since when it runs without its GPUs, which were taken back because it was idle */
  taken_since: number | null;
  /** max_duration: it has run for the longest time that a session may last */
  stops_because: 'idle' | 'max_duration' | null;
  /** what its kernels use too much of a shared GPU's memory; empty: nothing */
  memory_warning: string;
  /** its place in line for GPUs, from 1; null: it does not wait in line */
  position: number | null;
  /** when its GPUs are likely to be free; null: that depends on a session without a known end */
  estimated_start: number | null;
}

export interface SettingsEntry {
  reclaim: 'guarantee' | 'fair_share';
  reservations: number;
  preemption_delay: number;
  /** how much recent use lowers a project's share of the surplus; 0: not at all */
  time_aware: number;
  /** seconds after which recent use counts half as much */
  usage_half_life: number;
  /** idle build GPUs may be lent to preemptible jobs */
  lending: boolean;
  /** minimum run time in seconds of an elastic job's attempt before the job is restarted with more workers */
  resize_interval: number;
  /** who gets what no guarantee covers: projects by weight, or first the jobs on the lowest service level */
  surplus: SurplusOrder;
  /** order of the jobs of projects that set none */
  order: QueueOrder;
  /** GPU-hours after which a job moves to the next level, in the order served */
  service_levels: number[];
  /** a job that has waited this many times as long as it ran returns to the lowest level */
  patience: number;
  /** seconds after which an idle notebook server is warned; 0: never */
  session_idle_timeout: number;
  /** seconds after the warning, after which its GPUs are lent or it is stopped, unless it is used */
  session_idle_grace: number;
  /** seconds for which an idle server's GPUs are lent to preemptible jobs before it is stopped; they come back when it is used; 0: not lent. Only with lending */
  session_idle_lend: number;
  /** what happens to a server that stays idle: stop, or take_back, which shuts down its kernels and leaves it running without GPUs */
  session_idle_action: IdleAction;
  /** other idle rules for some users or groups; the first one that names a user or their group counts */
  session_idle_exceptions: IdleExceptionEntry[];
  /** seconds after which a notebook server is stopped, used or not; its user is warned session_idle_grace before; 0: never */
  session_max_duration: number;
  /** what declared GPUs are shown to do while jobs hold them; null: nothing is shown */
  declared_load: DeclaredLoadEntry | null;
}

/** How the jobs fare on one pool. use is the share of its GPUs that they hold; never_started jobs do not fit. */
export interface SideView {
  gpus: number;
  use: number;
  /** null if no job ends on all sides */
  total: OutcomeView | null;
  by_project: Record<string, OutcomeView>;
  never_started: number;
}

/** How fast similar jobs ran on a type of GPU: relative to the fastest type (1), measured in this many runs. */
export interface SpeedView {
  gpu_type: string;
  relative: number;
  /** the same over several nodes; null: not measured */
  spread: number | null;
  per_second: number;
  /** what per_second counts: the steps that jobs report, or whole runs */
  unit: 'steps' | 'runs';
  runs: number;
}

/**
 * The jobs that the listener shows from now on: of those that wait it receives the positions and estimated starts,
 * and of the caller's own that run it learns when they have written something.
 */
export interface StreamShows {
  jobs: string[];
}

/**
 * How what no guarantee covers is divided among projects: by weight, or to the jobs that were served least
 * first.
 */
export type SurplusOrder = 'weight' | 'served';

/** The rows, ordered by the start of their period. since is the start of the first period. */
export interface UsageReport {
  since: number;
  until: number;
  by: ('environment' | 'project' | 'user' | 'gpu_type')[];
  every: 'hour' | 'day' | 'week' | 'month' | null;
  rows: UsageRow[];
}

/**
 * The use in one period, or in the whole span, for one value of each dimension that the report is grouped by; the
 * other dimensions are null.
 */
export interface UsageRow {
  /** start of the period; null: the whole span */
  start: number | null;
  environment: Environment | null;
  /** empty for sessions */
  project: string | null;
  /** empty for the users who used least, where a period has a thousand users */
  user: string | null;
  /** empty if it is unknown */
  gpu_type: string | null;
  /** GPU-hours allocated */
  gpu_hours: number;
  /** GPU-hours in which utilisation was measured … */
  measured_gpu_hours: number;
  /** … and those of them in which the GPUs were idle */
  idle_gpu_hours: number;
  /** number of attempts and sessions that started */
  starts: number;
  /** average time that they had waited; null if none started */
  mean_wait: number | null;
  longest_wait: number;
  /** number of attempts that were stopped so that others got their GPUs */
  reclaims: number;
  /** GPU-hours between the last known checkpoint and the stop */
  lost_gpu_hours: number;
}

export interface UserEntry {
  name: string;
  build_quota: number;
}

export interface UserGroupEntry {
  name: string;
  /** GPUs for each of its users */
  build_quota: number;
}

/**
 * Sorted by name; next is after of the page that follows, null where there is none. hub_problem says why the
 * hub did not tell its users.
 */
export interface UserList {
  users: UserView[];
  groups: GroupView[];
  default_build_quota: number;
  /** users on all pages */
  total: number;
  hub_problem: string | null;
  next: string | null;
}

/**
 * A user known to the hub, to the pool file or by what they run.
 *
 * build_quota is what is in force: the user's own, else the largest of their groups' (that of build_quota_group),
 * else the default one. last_activity is the hub's: any traffic of a notebook server counts.
 */
export interface UserView {
  name: string;
  /** in JupyterHub; of users that it does not know: none */
  groups: string[];
  build_quota: number;
  build_quota_source: 'user' | 'group' | 'default';
  build_quota_group: string | null;
  /** GPUs that the user's sessions hold */
  build_gpus: number;
  sessions: number;
  /** jobs that hold GPUs */
  running: number;
  /** GPUs that the user's jobs hold */
  train_gpus: number;
  /** jobs in the queue */
  waiting: number;
  last_activity: number | null;
}

/** The changes in what a listener shows; null: no change. */
export interface ViewFigures {
  me: Me | null;
  pool: PoolFigures | null;
  projects: ProjectView[] | null;
  jobs: WaitingView[] | null;
  /** those of the caller's sessions and running jobs that it shows, or of the whole pool */
  gpus: GpuFigures[] | null;
}

/** The running jobs of the caller, of those that the listener shows, whose logs or reports may have grown. */
export interface ViewWritten {
  printed: string[];
  reported: string[];
}

/** The reason, position and estimated start of a waiting job. */
export interface WaitingView {
  id: string;
  /** absent if it has not changed */
  reason: string | null;
  notice: string;
  position: number | null;
  estimated_start: number | null;
  earliest_start: number | null;
  latest_start: number | null;
}

/** What if the pool had gpus more GPUs, and these projects were guaranteed so many. */
export interface WhatIfAsk {
  /** default: 30 days before until */
  since: number | null;
  /** default: now */
  until: number | null;
  gpus: number;
  guaranteed: Record<string, number>;
}

/**
 * The jobs that were submitted in the span, as recorded and simulated on the pool as it is and on the changed one.
 * unfinished jobs are taken as ended; those that never_ran, or whose project or node pool is gone, are left
 * out.
 */
export interface WhatIfReport {
  since: number;
  until: number;
  unfinished: number;
  never_ran: number;
  gone: number;
  recorded: SideView;
  unchanged: SideView;
  changed: SideView;
}

/**
 * A time window in which the project has a different guarantee. A window whose to is not after its from ends on
 * the next day; days, first and last refer to the day on which it starts.
 */
export interface WindowEntry {
  /** days of the week, such as mon-fri or tue,fri */
  days: string;
  /** start, in local time of timezone */
  from: string;
  /** end, in local time of timezone */
  to: string;
  /** first date; null: no first date */
  first: string | null;
  /** last date; null: no last date */
  last: string | null;
  /** name from the IANA time zone database, such as Europe/Berlin */
  timezone: string;
  /** GPUs; null: unlimited */
  guaranteed: number | null;
}

/** A GPU that a worker of a job holds or held. Spans in which it was not measured are left out. */
export interface WorkerGpuUse {
  rank: number;
  node: string;
  gpu: number;
  points: GpuPoint[];
}

export interface WorkerView {
  rank: number;
  node: string;
  gpus: number[];
  share: number;
}
