/** Default views of the API, with the values that a test sets. */
import type { JobView, PolicyEntry, ProjectView, SessionView } from '../model/api';

export function aJob(id: string, change: Partial<JobView> = {}): JobView {
  return {
    id,
    name: `job-${id}`,
    project: 'vision',
    user: 'ada',
    mine: true,
    kind: 'command',
    state: 'queued',
    reason: '',
    notice: '',
    isolation: '',
    blocked_by: null,
    position: null,
    estimated_start: null,
    earliest_start: null,
    latest_start: null,
    submitted: 1000,
    started: null,
    ended: null,
    gpus: 1,
    workers: 1,
    min_workers: 1,
    groups: [],
    total_gpus: 1,
    priority: 50,
    preemptible: true,
    over_quota: false,
    attempts: [],
    outputs: [],
    exit_code: null,
    after: [],
    array: null,
    index: null,
    array_size: null,
    schedule: null,
    checkpointed: null,
    parameters: {},
    ...change
  };
}

const NO_RULES: PolicyEntry = {
  defaults: {
    gpus: null,
    cpus: null,
    memory_gib: null,
    priority: null,
    preemptible: null,
    min_runtime: null,
    max_runtime: null,
    idle_timeout: null,
    gpu_types: null,
    grace: null,
    retries: null,
    node_pools: null
  },
  maxima: {
    gpus: null,
    total_gpus: null,
    cpus: null,
    memory_gib: null,
    workers: null,
    priority: null,
    min_runtime: null,
    max_runtime: null,
    idle_timeout: null,
    grace: null,
    retries: null
  },
  allowed: { gpu_types: null, node_pools: null, preemptible: null }
};

export function aProject(name: string, change: Partial<ProjectView> = {}): ProjectView {
  return {
    name,
    parent: null,
    guaranteed: 2,
    guaranteed_in_all: 2,
    limit: null,
    weight: null,
    priority: 0,
    members: [],
    groups: [],
    policy: NO_RULES,
    quotas: [],
    order: null,
    guaranteed_cpus: null,
    limit_cpus: null,
    guaranteed_memory_gib: null,
    limit_memory_gib: null,
    windows: [],
    guaranteed_now: 2,
    changes: [],
    allocated_cpus: 0,
    allocated_memory_gib: 0,
    parts: [],
    takes_jobs: true,
    fair_share: 2,
    allocated: 0,
    demand: 0,
    over_quota: 0,
    could_start: 2,
    recent_use: 0,
    running: 0,
    waiting: 0,
    ...change
  };
}

export function aSession(id: string, change: Partial<SessionView> = {}): SessionView {
  return {
    id,
    user: 'ada',
    server: '',
    state: 'leased',
    reason: '',
    gpus: 1,
    workers: [{ rank: 0, node: 'box-build', gpus: [0], share: 1 }],
    env: {},
    pod: null,
    declared: true,
    requested: 900,
    started: 900,
    idle_since: null,
    memory_warning: '',
    stops_at: null,
    stops_because: null,
    takes_back: false,
    lends_at: null,
    lent_since: null,
    lent: [],
    recalled_since: null,
    taken_since: null,
    position: null,
    estimated_start: null,
    ...change
  };
}
