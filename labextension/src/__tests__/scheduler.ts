/** An in-memory scheduler behind the transport, with real responses and streams; connections can be cut. */
import type {
  Applied,
  AuditEntry,
  DemandForecast,
  DisplayLine,
  Event as PoolEvent,
  Explanation,
  GpuHistory,
  JobGpuUse,
  JobPage,
  JobState,
  JobSubmit,
  JobView,
  Me,
  NodeDrain,
  NodeGpus,
  NoticesChoice,
  NoticesTested,
  NoticesView,
  NodeMove,
  OutputFile,
  PoolFile,
  PoolHistory,
  PoolView,
  ProjectEntry,
  ProjectView,
  ScheduleView,
  SessionView,
  StreamShows,
  UsageRow,
  ViewFigures,
  WhatIfAsk,
  WhatIfReport
} from '../model/api';
import { matches } from '../components/jobs';
import type { ITransport } from '../model/transport';
import { aProject, aSession } from './views';

export { aJob, aProject, aSession } from './views';

export class Scheduler implements ITransport {
  readonly asked: string[] = [];
  /** The `Last-Event-ID` of each stream that was opened. */
  readonly resumed: (string | null)[] = [];
  /** The jobs that the page reported as shown, oldest first. */
  readonly shows: string[][] = [];
  /** The id of the store; a new store numbers its events from the start. */
  store = 'store-1';
  readonly jobs = new Map<string, JobView>();
  readonly logs = new Map<string, string>();
  /** The lengths of logs with their times. */
  readonly lengths = new Map<string, [number, number][]>();
  readonly reports = new Map<string, Record<string, unknown>[]>();
  readonly shown = new Map<string, DisplayLine[]>();
  readonly files = new Map<string, OutputFile[]>();
  /** The contents of the files, by path. */
  readonly contents = new Map<string, string>();
  readonly submissions = new Map<string, Partial<JobSubmit>>();
  readonly explanations = new Map<string, Explanation>();
  schedules: ScheduleView[] = [];
  sessions: SessionView[] = [aSession('s1')];
  line: SessionView[] = [];
  projects: ProjectView[] = [aProject('vision')];
  /** The response of a preview, and the previewed change. */
  previewed: Applied = { preview: true, changes: [], warnings: [], effects: [] };
  readonly previews: ProjectEntry[] = [];
  poolFile = {
    node_pools: [
      { name: 'build', environment: 'build' },
      { name: 'train', environment: 'train' },
      { name: 'old', environment: 'train' }
    ]
  } as PoolFile;
  /** Newest first, one per page. */
  audit: AuditEntry[] = [];
  usage: UsageRow[] = [];
  poolHistory: PoolHistory = { since: 0, until: 3600, step: 60, points: [] };
  forecast: DemandForecast | null = null;
  whatIf: WhatIfReport | null = null;
  readonly simulated: WhatIfAsk[] = [];
  notices: NoticesView = {
    channel: 'none',
    address: '',
    events: ['failed', 'succeeded', 'cancelled', 'warned', 'paused', 'resumed'],
    shortest_success: 600,
    waiting: 0,
    problem: ''
  };
  readonly chosen: NoticesChoice[] = [];
  tested: NoticesTested = { delivered: true, message: 'The test notice was accepted.' };
  gpuUse: JobGpuUse = { attempt: 1, since: 0, until: 0, step: 0, held: 0, declared: false, shared: false, gpus: [] };
  gpus: NodeGpus = { node: 'n1', measured: false, declared: false, isolation: 'unknown', gpus: [] };
  history: GpuHistory = {
    node: 'n1',
    gpu: 0,
    measured: true,
    declared: false,
    since: 0,
    until: 3600,
    step: 10,
    points: []
  };
  me: Me = {
    name: 'ada',
    admin: false,
    scopes: ['read', 'submit'],
    build_quota: 1,
    projects: ['vision'],
    jobs: { running: 0, stopping: 0, waiting: 0, paused: 0 },
    team_jobs: { running: 0, stopping: 0, waiting: 0, paused: 0 }
  };
  pool: PoolView = {
    declared: true,
    build: { gpus: 2, allocated: 1, over_quota: 0, free: 1, foreign: 0, failing: 0 },
    train: { gpus: 6, allocated: 0, over_quota: 0, free: 6, foreign: 0, failing: 0 },
    waiting: 0,
    nodes: []
  };
  /** While down, requests fail. Otherwise a status and a problem for every response. */
  trouble: 'down' | [number, object | string] | null = null;
  /** Called before a response for this path is made. */
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
      if (init.method === 'PATCH') {
        this.set({ ...this.jobs.get(id)!, ...(JSON.parse(String(init.body)) as Pick<JobView, 'priority'>) });
      }
      return this._job(id, what, url, init.method ?? 'GET');
    }
    if (url.pathname === '/me/notices' && init.body) {
      const choice = JSON.parse(String(init.body)) as NoticesChoice;
      this.chosen.push(choice);
      const kept = choice.channel === this.notices.channel ? this.notices.address : '';
      if (choice.channel !== 'none' && !(choice.address ?? kept)) {
        return json({ detail: 'This is no URL of a webhook; it begins with https://.', field: 'address' }, 422);
      }
      const hidden = choice.channel === 'email' ? choice.address : 'https://hooks.example.org/…';
      this.notices = { ...this.notices, ...choice, address: (choice.address && hidden) ?? kept };
    }
    if (url.pathname.startsWith('/me/notices')) {
      return json(url.pathname.endsWith('/test') ? this.tested : this.notices);
    }
    if (url.pathname === '/pool/history') {
      return json(this.poolHistory);
    }
    if (url.pathname === '/usage/forecast') {
      return json(this.forecast);
    }
    if (url.pathname === '/usage/what-if') {
      this.simulated.push(JSON.parse(String(init.body)) as WhatIfAsk);
      return json(this.whatIf);
    }
    if (url.pathname === '/pool/preview') {
      this.previews.push(JSON.parse(String(init.body)) as ProjectEntry);
      return json(this.previewed);
    }
    if (collection === 'projects' && id) {
      return this._project(id, init);
    }
    if (url.pathname === '/pool/file') {
      return json(this.poolFile);
    }
    if (what === 'node-pool') {
      const { node_pool } = JSON.parse(String(init.body)) as NodeMove;
      const nodes = this.pool.nodes.map(node => (node.name === id ? { ...node, node_pool } : node));
      if (!url.searchParams.has('preview')) {
        this.pool = { ...this.pool, nodes };
        this.tell('pool.changed', 'pool');
      }
      return json(this.previewed);
    }
    if (collection === 'nodes' && what === 'gpus') {
      return json(url.pathname.endsWith('/history') ? this.history : this.gpus);
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
    const array = url.searchParams.get('array');
    const told = url.searchParams.getAll('job').filter(one => this.reports.has(one));
    const answers: Record<string, unknown> = {
      me: this.me,
      pool: this.pool,
      projects: { projects: this.projects },
      sessions: { sessions: this.sessions, line: this.line },
      schedules: { schedules: this.schedules },
      reports: { reports: told.map(job => ({ job, point: Object.assign({}, ...this.reports.get(job)!) as object })) },
      usage: { since: 0, until: 0, by: [], every: null, rows: this.usage },
      jobs: this._page(
        [...this.jobs.values()].filter(
          job =>
            (!states.length || states.includes(job.state)) &&
            (user === null || user === job.user) &&
            (array === null || array === job.array) &&
            (url.searchParams.get('mine') !== 'true' || job.mine) &&
            matches(job, url.searchParams.get('find') ?? '')
        ),
        url.searchParams
      )
    };
    return json(answers[collection ?? '']);
  }

  private _page(jobs: JobView[], asked: URLSearchParams): JobPage {
    const from = Number(asked.get('after') ?? 0);
    const end = from + Number(asked.get('limit') ?? 100);
    return { jobs: jobs.slice(from, end), next: end < jobs.length ? String(end) : null };
  }

  /** Stores the job and sends the event to every stream. */
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

  /** Sends every stream the current figures of what it shows. */
  tellFigures(figures: Partial<ViewFigures>): void {
    const text = passing({ kind: 'view.figures', data: { ...figures } });
    this._streams.forEach(stream => stream.enqueue(encode(text)));
  }

  /** Tells every stream that these jobs have printed and reported. */
  tellWritten(...jobs: string[]): void {
    const data = { printed: jobs, reported: jobs };
    this._streams.forEach(stream => stream.enqueue(encode(passing({ kind: 'view.written', data }))));
  }

  /** Tells every stream that it has missed too many events. */
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
      const [attempt, rank] = ['attempt', 'rank'].map(name => url.searchParams.get(name));
      const bytes = encode(this.logs.get(`${id}/${attempt}/${rank}`) ?? this.logs.get(id) ?? '');
      return new Response(bytes.slice(Number(url.searchParams.get('offset'))));
    }
    if (what === 'log-times') {
      const after = Number(url.searchParams.get('offset'));
      return json({ times: (this.lengths.get(id) ?? []).filter(([size]) => size > after) });
    }
    if (what === 'gpu-use') {
      return json({ ...this.gpuUse, attempt: Number(url.searchParams.get('attempt')) });
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
    if (what === 'explain' || what === 'submission') {
      return json(what === 'explain' ? this.explanations.get(id) : this.submissions.get(id));
    }
    const file = url.pathname.split('/').slice(4).join('/');
    if (what === 'outputs' && file) {
      return new Response(this.contents.get(file));
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

/** A message without an id of its own. */
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
