/** A scheduler in memory behind the transport: real responses and streams, and a line that can be cut. */
import type {
  Applied,
  AuditEntry,
  DisplayLine,
  Event as PoolEvent,
  JobState,
  JobView,
  Me,
  NodeDrain,
  OutputFile,
  PolicyEntry,
  PoolView,
  ProjectEntry,
  ProjectView,
  SessionView,
  StreamShows,
  UsageRow,
  ViewFigures
} from '../model/api';
import type { ITransport } from '../model/transport';

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
    ...change
  };
}

export class Scheduler implements ITransport {
  readonly asked: string[] = [];
  /** The `Last-Event-ID` of each stream that was opened. */
  readonly resumed: (string | null)[] = [];
  /** What the page has said that it shows, oldest first. */
  readonly shows: string[][] = [];
  /** Another one after it was replaced: ids of events begin anew. */
  store = 'store-1';
  readonly jobs = new Map<string, JobView>();
  readonly logs = new Map<string, string>();
  readonly reports = new Map<string, Record<string, unknown>[]>();
  readonly shown = new Map<string, DisplayLine[]>();
  readonly files = new Map<string, OutputFile[]>();
  sessions: SessionView[] = [aSession('s1')];
  projects: ProjectView[] = [aProject('vision')];
  /** What a preview answers, and what was to be previewed. */
  previewed: Applied = { preview: true, changes: [], warnings: [], effects: [] };
  readonly previews: ProjectEntry[] = [];
  /** The newest first; a page has one. */
  audit: AuditEntry[] = [];
  usage: UsageRow[] = [];
  me: Me = {
    name: 'ada',
    admin: false,
    scopes: ['read', 'submit'],
    build_quota: 1,
    projects: ['vision']
  };
  pool: PoolView = {
    declared: true,
    build: { gpus: 2, allocated: 1, over_quota: 0, free: 1, foreign: 0 },
    train: { gpus: 6, allocated: 0, over_quota: 0, free: 6, foreign: 0 },
    waiting: 0,
    nodes: []
  };
  /** Down: nobody answers. Otherwise a status and a problem to answer everything with. */
  trouble: 'down' | [number, object | string] | null = null;
  /** Called before an answer to this path is made. */
  before: Record<string, () => void> = {};

  async send(path: string, init: RequestInit = {}): Promise<Response> {
    this.asked.push(`${init.method ?? 'GET'} ${path}`);
    if (this.trouble === 'down') {
      throw new TypeError('Failed to fetch');
    }
    if (this.trouble) {
      const [status, body] = this.trouble;
      return new Response(typeof body === 'string' ? body : JSON.stringify(body), { status });
    }
    const url = new URL(path, 'http://pool/');
    this.before[url.pathname]?.();
    const [, collection, id, what] = url.pathname.split('/');
    if (collection === 'events' && id) {
      this.shows.push((JSON.parse(String(init.body)) as StreamShows).jobs);
      return new Response(null, { status: 204 });
    }
    if (collection === 'events') {
      const after = new Headers(init.headers).get('Last-Event-ID');
      this.resumed.push(after);
      this.shows.push(url.searchParams.getAll('shows'));
      const known = url.searchParams.get('store') === this.store;
      return this._stream(known ? after : null, init.signal ?? undefined);
    }
    if (collection === 'jobs' && id) {
      return this._job(id, what, url, init.method ?? 'GET');
    }
    if (url.pathname === '/pool/preview') {
      this.previews.push(JSON.parse(String(init.body)) as ProjectEntry);
      return json(this.previewed);
    }
    if (collection === 'projects' && id) {
      return this._project(id, init);
    }
    if (collection === 'nodes') {
      const drained = init.body ? (JSON.parse(String(init.body)) as NodeDrain).reason : null;
      const nodes = this.pool.nodes.map(node => (node.name === id ? { ...node, drained } : node));
      this.pool = { ...this.pool, nodes };
      this.tell('pool.changed', 'pool');
      return new Response(null, { status: 204 });
    }
    if (collection === 'audit') {
      const after = Number(url.searchParams.get('after') ?? Infinity);
      const [entry, more] = this.audit.filter(one => one.id < after);
      return json({ entries: entry ? [entry] : [], next: more ? entry!.id : null });
    }
    if (collection === 'usage.csv') {
      return new Response('project,gpu_hours\n');
    }
    const states = url.searchParams.getAll('state') as JobState[];
    const user = url.searchParams.get('user');
    const answers: Record<string, unknown> = {
      me: this.me,
      pool: this.pool,
      projects: { projects: this.projects },
      sessions: { sessions: this.sessions },
      usage: { since: 0, until: 0, by: [], every: null, rows: this.usage },
      jobs: {
        jobs: [...this.jobs.values()].filter(
          job => (!states.length || states.includes(job.state)) && (user === null || user === job.user)
        ),
        next: null
      }
    };
    return json(answers[collection ?? '']);
  }

  /** Puts the job in the book and tells every stream. */
  set(job: JobView): void {
    const kind = this.jobs.has(job.id) ? 'job.state' : 'job.submitted';
    this.jobs.set(job.id, job);
    this.tell(kind, job.id, { job });
  }

  tell(kind: string, subject: string, more: Partial<PoolEvent> = {}): void {
    this._last += 1;
    const event: PoolEvent = {
      id: this._last,
      at: 0,
      kind,
      subject,
      data: {},
      job: null,
      session: null,
      ...more
    };
    const text = `id: ${event.id}\n${passing(event)}`;
    this._record.push([event.id, text]);
    this._streams.forEach(stream => stream.enqueue(encode(text)));
  }

  /** Tells every stream how what it shows stands now. */
  tellFigures(figures: Partial<ViewFigures>): void {
    const text = passing({ kind: 'view.figures', data: { ...figures } });
    this._streams.forEach(stream => stream.enqueue(encode(text)));
  }

  /** Tells every stream that it has missed too much. */
  beginAnew(): void {
    this._streams.forEach(stream => stream.enqueue(encode(begins(false))));
  }

  /** Ends every stream, as a restart does. */
  cut(): void {
    this._streams.forEach(stream => stream.close());
    this._streams.clear();
  }

  get streams(): number {
    return this._streams.size;
  }

  private _job(id: string, what: string | undefined, url: URL, method: string): Response {
    const job = this.jobs.get(id);
    if (!job) {
      return json({ detail: `There is no job ${id}.`, status: 404 }, 404);
    }
    if (what === 'logs') {
      const bytes = encode(this.logs.get(id) ?? '');
      return new Response(bytes.slice(Number(url.searchParams.get('offset'))));
    }
    if (what === 'metrics') {
      const points = this.reports.get(id) ?? [];
      const offset = Number(url.searchParams.get('offset'));
      return json({ points: points.slice(offset), next: points.length });
    }
    if (what === 'display') {
      const [attempt, log] = ['attempt', 'log'].map(name => Number(url.searchParams.get(name)));
      const lines = (this.shown.get(id) ?? []).filter(line => line.attempt === attempt && line.log > log!);
      return new Response(lines.map(line => JSON.stringify(line) + '\n').join(''));
    }
    if (what === 'outputs') {
      return json({ files: this.files.get(id) ?? [] });
    }
    if (method === 'DELETE') {
      this.jobs.delete(id);
      this.tell('job.deleted', id);
      return new Response(null, { status: 204 });
    }
    if (method === 'POST') {
      const states: Record<string, JobState> = {
        cancel: 'cancelled',
        pause: 'paused',
        resume: 'queued'
      };
      this.set({ ...job, state: states[what ?? ''] ?? job.state });
    }
    return json(this.jobs.get(id));
  }

  private _project(name: string, init: RequestInit): Response {
    const view = this.projects.find(project => project.name === name);
    const version = JSON.stringify(view && [view.guaranteed, view.limit]);
    const seen = new Headers(init.headers).get('If-Match');
    if (seen !== null && seen !== version) {
      return json({ detail: `Project ${name} has been changed meanwhile.`, status: 412 }, 412);
    }
    if (init.method) {
      const others = this.projects.filter(project => project !== view);
      const entry = init.body ? (JSON.parse(String(init.body)) as ProjectEntry) : null;
      this.projects = entry ? [...others, aProject(name, entry)] : others;
      this.tell('pool.changed', 'pool');
    }
    return new Response(JSON.stringify(view ?? {}), { headers: { ETag: version ?? '' } });
  }

  private _stream(after: string | null, signal: AbortSignal | undefined): Response {
    let mine: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({
      start: controller => {
        mine = controller;
        this._streams.add(mine);
        mine.enqueue(encode(`retry: 1000\nid: ${after ?? this._last}\n\n`));
        mine.enqueue(encode(begins(after !== null)));
        const { me, projects } = this;
        mine.enqueue(encode(passing({ kind: 'view.figures', data: { me, projects } })));
        if (after !== null) {
          this._record.filter(([id]) => id > Number(after)).forEach(([, text]) => mine.enqueue(encode(text)));
        }
      },
      cancel: () => {
        this._streams.delete(mine);
      }
    });
    signal?.addEventListener('abort', () => {
      if (this._streams.delete(mine)) {
        mine.error(signal.reason);
      }
    });
    const headers = { 'Content-Type': 'text/event-stream', 'Runai-Store': this.store };
    return new Response(body, { headers });
  }

  private _last = 7;
  private readonly _record: [number, string][] = [];
  private readonly _streams = new Set<ReadableStreamDefaultController<Uint8Array>>();
}

/** A message that has no id of its own. */
function passing(event: Partial<PoolEvent>): string {
  const whole = { id: 0, at: 0, subject: '', data: {}, job: null, session: null, ...event };
  return `event: ${event.kind}\ndata: ${JSON.stringify(whole)}\n\n`;
}

function begins(resumed: boolean): string {
  return passing({ kind: 'stream.begin', subject: 'stream-1', data: { resumed, heartbeat: 5 } });
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function json(body: unknown, status = 200): Response {
  return new Response(JSON.stringify(body), { status });
}
