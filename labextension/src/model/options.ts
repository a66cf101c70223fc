// Made by scripts/option_table.py from scheduler/submission/options.py: change that file, not this one.

/** How a value is asked for. `lines`: an assignment on each line; `names`: with commas between them. */
export type FieldKind = 'text' | 'number' | 'names' | 'switch' | 'lines' | 'choice';

/** What the pool knows values of. */
export type OfferKind = 'project' | 'gpuType' | 'nodePool' | 'job';

/** An option of a submission. `standard` is what holds without it, in words or as a value. */
export interface SubmitOption {
  name: string;
  label: string;
  field: FieldKind;
  help: string;
  group: string;
  basic: boolean;
  example: string;
  standard: string;
  metavar: string;
  choices: readonly string[];
  offers: OfferKind | null;
}

export const OPTIONS: readonly SubmitOption[] = [
  {
    name: 'gpus',
    label: 'GPUs',
    field: 'number',
    help: 'GPUs for each worker, or a fraction of one GPU.',
    group: 'What it needs',
    basic: true,
    example: '0.25',
    standard: '1',
    metavar: 'N',
    choices: [],
    offers: null
  },
  {
    name: 'gpu_memory_gib',
    label: 'GPU memory',
    field: 'text',
    help: 'Memory on one GPU for each worker, instead of a number of GPUs.',
    group: 'What it needs',
    basic: false,
    example: '10GiB',
    standard: '',
    metavar: 'SIZE',
    choices: [],
    offers: null
  },
  {
    name: 'gpu_types',
    label: 'GPU type',
    field: 'names',
    help: 'Types of GPU that the job accepts.',
    group: 'What it needs',
    basic: true,
    example: '',
    standard: 'any',
    metavar: 'TYPE,…',
    choices: [],
    offers: 'gpuType'
  },
  {
    name: 'cpus',
    label: 'CPUs',
    field: 'number',
    help: 'CPUs for each worker.',
    group: 'What it needs',
    basic: false,
    example: '',
    standard: '',
    metavar: 'N',
    choices: [],
    offers: null
  },
  {
    name: 'memory_gib',
    label: 'Memory',
    field: 'text',
    help: 'Memory for each worker.',
    group: 'What it needs',
    basic: false,
    example: '16GiB',
    standard: '',
    metavar: 'SIZE',
    choices: [],
    offers: null
  },
  {
    name: 'workers',
    label: 'Workers',
    field: 'number',
    help: 'Number of workers.',
    group: 'What it needs',
    basic: true,
    example: '',
    standard: '1',
    metavar: 'N',
    choices: [],
    offers: null
  },
  {
    name: 'min_workers',
    label: 'Minimum workers',
    field: 'number',
    help: 'Start with this many workers, and add more as GPUs become free.',
    group: 'What it needs',
    basic: false,
    example: '',
    standard: 'all workers',
    metavar: 'N',
    choices: [],
    offers: null
  },
  {
    name: 'framework',
    label: 'Framework',
    field: 'choice',
    help: 'Conventions by which the workers find each other.',
    group: 'What it needs',
    basic: true,
    example: '',
    standard: 'none',
    metavar: 'NAME',
    choices: ['none', 'torch', 'tensorflow', 'horovod', 'jax', 'mpi'],
    offers: null
  },
  {
    name: 'node_pools',
    label: 'Node pool',
    field: 'names',
    help: 'Node pools that the job may use, in order of preference.',
    group: 'What it needs',
    basic: false,
    example: '',
    standard: 'any',
    metavar: 'NAME,…',
    choices: [],
    offers: 'nodePool'
  },
  {
    name: 'require',
    label: 'Keep within',
    field: 'text',
    help: 'Place all workers within one node, rack or other level of the topology.',
    group: 'What it needs',
    basic: false,
    example: '',
    standard: '',
    metavar: 'LEVEL',
    choices: [],
    offers: null
  },
  {
    name: 'prefer',
    label: 'Prefer within',
    field: 'text',
    help: 'Place all workers within one node, rack or other level where that is possible.',
    group: 'What it needs',
    basic: false,
    example: '',
    standard: '',
    metavar: 'LEVEL',
    choices: [],
    offers: null
  },
  {
    name: 'image',
    label: 'Image',
    field: 'text',
    help: 'On Kubernetes, the container image that the workers run in.',
    group: 'What it needs',
    basic: false,
    example: 'quay.io/jupyter/pytorch-notebook',
    standard: "that of the notebook, else the pool's",
    metavar: 'NAME',
    choices: [],
    offers: null
  },
  {
    name: 'outputs',
    label: 'Returned variables',
    field: 'names',
    help: 'Variables that the cell returns.',
    group: 'What is sent and returned',
    basic: true,
    example: '',
    standard: '',
    metavar: 'NAME,…',
    choices: [],
    offers: null
  },
  {
    name: 'in',
    label: 'Files',
    field: 'names',
    help: 'Send only the files that match; for a cell, also only the variables that are named.',
    group: 'What is sent and returned',
    basic: false,
    example: 'data/*.csv',
    standard: '',
    metavar: 'NAME,…',
    choices: [],
    offers: null
  },
  {
    name: 'no_files',
    label: 'No files',
    field: 'switch',
    help: 'Send no files.',
    group: 'What is sent and returned',
    basic: false,
    example: '',
    standard: '',
    metavar: '',
    choices: [],
    offers: null
  },
  {
    name: 'env',
    label: 'Environment variables',
    field: 'lines',
    help: 'Set an environment variable of the job.',
    group: 'What is sent and returned',
    basic: false,
    example: '',
    standard: '',
    metavar: 'NAME=VALUE',
    choices: [],
    offers: null
  },
  {
    name: 'notebook_parameters',
    label: 'Notebook parameters',
    field: 'lines',
    help: 'Set a parameter of the notebook.',
    group: 'What is sent and returned',
    basic: false,
    example: '',
    standard: '',
    metavar: 'NAME=VALUE',
    choices: [],
    offers: null
  },
  {
    name: 'name',
    label: 'Name',
    field: 'text',
    help: 'Name of the job.',
    group: 'How it is queued',
    basic: false,
    example: '',
    standard: 'the script, notebook or program',
    metavar: 'NAME',
    choices: [],
    offers: null
  },
  {
    name: 'project',
    label: 'Project',
    field: 'text',
    help: 'Project of the job.',
    group: 'How it is queued',
    basic: true,
    example: '',
    standard: 'your first project',
    metavar: 'NAME',
    choices: [],
    offers: 'project'
  },
  {
    name: 'priority',
    label: 'Priority',
    field: 'number',
    help: 'Priority within the project; the highest starts first.',
    group: 'How it is queued',
    basic: true,
    example: '',
    standard: '50',
    metavar: 'N',
    choices: [],
    offers: null
  },
  {
    name: 'preemptible',
    label: 'Not preemptible',
    field: 'switch',
    help: "Never stop it for other jobs; it must fit into the project's guarantee.",
    group: 'How it is queued',
    basic: false,
    example: '',
    standard: '',
    metavar: '',
    choices: [],
    offers: null
  },
  {
    name: 'after',
    label: 'Start after',
    field: 'names',
    help: 'Start when these jobs or arrays have succeeded, or, with :any after an id, when they have ended.',
    group: 'How it is queued',
    basic: false,
    example: '',
    standard: '',
    metavar: 'JOB,…',
    choices: [],
    offers: 'job'
  },
  {
    name: 'schedule',
    label: 'Schedule',
    field: 'text',
    help: 'Submit the job at these times from now on, instead of once now.',
    group: 'How it is queued',
    basic: true,
    example: '0 2 * * *',
    standard: 'once, now',
    metavar: 'CRON',
    choices: [],
    offers: null
  },
  {
    name: 'timezone',
    label: 'Time zone',
    field: 'text',
    help: 'Time zone of the schedule.',
    group: 'How it is queued',
    basic: false,
    example: 'Europe/Berlin',
    standard: 'UTC',
    metavar: 'ZONE',
    choices: [],
    offers: null
  },
  {
    name: 'retries',
    label: 'Retries',
    field: 'number',
    help: 'Number of times to try again after a failure.',
    group: 'How it is queued',
    basic: false,
    example: '',
    standard: '0',
    metavar: 'N',
    choices: [],
    offers: null
  },
  {
    name: 'max_runtime',
    label: 'Maximum run time',
    field: 'text',
    help: 'Stop an attempt after this time.',
    group: 'How long it runs',
    basic: false,
    example: '2h',
    standard: '',
    metavar: 'TIME',
    choices: [],
    offers: null
  },
  {
    name: 'min_runtime',
    label: 'Minimum run time',
    field: 'text',
    help: 'Do not preempt an attempt before it has run for this time.',
    group: 'How long it runs',
    basic: false,
    example: '10m',
    standard: '',
    metavar: 'TIME',
    choices: [],
    offers: null
  },
  {
    name: 'idle_timeout',
    label: 'Idle timeout',
    field: 'text',
    help: 'Stop the job when its GPUs have been idle for this time.',
    group: 'How long it runs',
    basic: false,
    example: '30m',
    standard: '',
    metavar: 'TIME',
    choices: [],
    offers: null
  },
  {
    name: 'expected_runtime',
    label: 'Expected run time',
    field: 'text',
    help: 'Estimate of the run time, from which start times are predicted.',
    group: 'How long it runs',
    basic: false,
    example: '40m',
    standard: 'learned from earlier jobs',
    metavar: 'TIME',
    choices: [],
    offers: null
  },
  {
    name: 'grace',
    label: 'Grace period',
    field: 'text',
    help: 'Time between SIGTERM and SIGKILL when an attempt is stopped.',
    group: 'How long it runs',
    basic: false,
    example: '',
    standard: '30s',
    metavar: 'TIME',
    choices: [],
    offers: null
  },
  {
    name: 'array',
    label: 'Array',
    field: 'text',
    help: 'Run one job for each index of a range.',
    group: 'Many jobs as one',
    basic: false,
    example: '0-99%10',
    standard: '',
    metavar: 'RANGE',
    choices: [],
    offers: null
  },
  {
    name: 'sweep',
    label: 'Sweep',
    field: 'text',
    help: 'Run one job for each combination of values.',
    group: 'Many jobs as one',
    basic: false,
    example: 'lr=0.1,0.01;bs=32',
    standard: '',
    metavar: 'NAME=VALUE,…;…',
    choices: [],
    offers: null
  },
  {
    name: 'max_parallel',
    label: 'Jobs at a time',
    field: 'number',
    help: 'Number of jobs of an array or a sweep that may run at the same time.',
    group: 'Many jobs as one',
    basic: false,
    example: '',
    standard: 'all',
    metavar: 'N',
    choices: [],
    offers: null
  }
];
