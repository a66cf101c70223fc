/**
 * The pool as one person sees it, kept up to date by the scheduler's event stream.
 *
 * After the stream starts, the model reads all lists, so that it misses no change in between. It reads them again only
 * if the stream cannot say what was missed. Events carry the new view of a job or session. The stream also sends the
 * figures of the pool and its projects, and the queue positions of the jobs shown. The model polls nothing while the
 * stream is alive.
 */
import { Signal, type ISignal } from '@lumino/signaling';
import type { Event as PoolEvent, JobView, ViewFigures } from './api';
import { Client, type JobVerb } from './client';
import { firstJobs } from './firstjobs';
import { HEARTBEATS, MOST_SHOWN, REST, TIMING, untilShown, type Timing } from './timing';
import { Schedules } from './schedules';
import { readMessages, type Message } from './sse';
import { isFinal, NOTHING, trim, withFigures, type IPoolModel, type PoolState } from './state';
import { PoolError, UNREACHABLE, type ITransport } from './transport';

export class PoolModel implements IPoolModel {
  readonly client: Client;

  /** `everything`: show all projects and GPUs, not only those of the caller. */
  constructor(
    transport: ITransport,
    timing: Partial<Timing> = {},
    private readonly _everything = false
  ) {
    this.client = new Client(transport);
    this.client.written.changed.connect(() => this._showsOthers());
    this._timing = { ...TIMING, ...timing };
    this._silence = this._timing.silence;
  }

  get state(): PoolState {
    return this._state;
  }

  get stateChanged(): ISignal<IPoolModel, PoolState> {
    return this._stateChanged;
  }

  get jobEnded(): ISignal<IPoolModel, JobView> {
    return this._jobEnded;
  }

  get isDisposed(): boolean {
    return this._disposed.signal.aborted;
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    this._disposed.abort();
    this.retry();
    clearTimeout(this._gathering);
    clearTimeout(this._figuring);
    clearTimeout(this._showing);
    Signal.clearData(this);
  }

  start(): void {
    if (!this._started) {
      this._started = true;
      void this._run();
    }
  }

  retry(): void {
    this._wake?.();
  }

  private _refresh(): void {
    this._figuring ??= setTimeout(() => void this._readPool(), Math.max(0, this._figured - Date.now()));
  }

  show(ids: readonly string[]): () => void {
    const shown = [...ids];
    this._rows.add(shown);
    this._showsOthers();
    return () => {
      this._rows.delete(shown);
      this._showsOthers();
    };
  }

  async act(id: string, verb: JobVerb): Promise<void> {
    if (verb === 'delete') {
      await this.client.delete(id);
      this._putJobs([], new Set([id]));
    } else {
      const before = this._state.jobs.get(id);
      const job = await this.client.act(id, verb);
      // The stream is newer: a cancelled job may have ended before the answer arrived.
      if (this._state.jobs.get(id) === before) {
        this._putJobs([job]);
      }
    }
  }

  async follow(id: string): Promise<JobView> {
    const known = this._state.jobs.get(id);
    if (known) {
      return known;
    }
    const job = await this.client.job(id);
    this.know([job]);
    return this._state.jobs.get(id) ?? job;
  }

  know(jobs: readonly JobView[]): void {
    this._putJobs(jobs.filter(job => !this._state.jobs.has(job.id)));
  }

  // -- the connection ---------------------------------------------------------------------------------------

  private async _run(): Promise<void> {
    let delay = this._timing.firstDelay;
    while (!this.isDisposed) {
      await untilShown(this._disposed.signal);
      try {
        await this._connect(() => {
          delay = this._timing.firstDelay;
        });
        // A normal end of the stream, such as a restart of the scheduler, is reported only if reconnecting fails.
      } catch (reason) {
        const error = reason instanceof PoolError ? reason : new PoolError(UNREACHABLE);
        this._set({ connection: 'lost', problem: error.message });
        if (!error.passing) {
          delay = this._timing.refusedDelay;
        }
      }
      if (this.isDisposed) {
        return;
      }
      await this._wait(delay * (0.8 + 0.4 * Math.random()));
      delay = Math.min(delay * 2, this._timing.longestDelay);
    }
  }

  /**
   * Follows one stream from its start to its end, or until the page has been hidden for a while: a browser allows six
   * connections to a server over HTTP/1, and background tabs must not use them up.
   */
  private async _connect(live: () => void): Promise<void> {
    const abort = new AbortController();
    const stop = () => abort.abort();
    let hiding: ReturnType<typeof setTimeout> | undefined;
    const look = () => {
      clearTimeout(hiding);
      if (document.hidden) {
        hiding = setTimeout(stop, this._timing.hidden);
      }
    };
    document.addEventListener('visibilitychange', look);
    this._disposed.signal.addEventListener('abort', stop);
    try {
      const shows = this._ids();
      const stream = await this.client.events(
        { after: this._last, shows, allProjects: this._everything },
        abort.signal
      );
      this._told = shows.join();
      this._store = stream.store;
      await this._read(stream.body, live);
    } finally {
      this._stream = null;
      abort.abort();
      clearTimeout(hiding);
      document.removeEventListener('visibilitychange', look);
      this._disposed.signal.removeEventListener('abort', stop);
    }
  }

  /** Events that arrive during the read wait in the stream, so none is lost. */
  private async _read(body: ReadableStream<Uint8Array>, live: () => void): Promise<void> {
    const messages = readMessages(body, () => this._silence);
    for (;;) {
      let next: IteratorResult<Message>;
      try {
        next = await messages.next();
      } catch {
        return; // A broken stream is like one that ended: the next attempt shows whether the scheduler is there.
      }
      if (next.done || this.isDisposed) {
        return;
      }
      const { id, data } = next.value;
      if (id !== null) {
        this._last = { event: id, store: this._store };
      }
      if (data) {
        const event = JSON.parse(data) as PoolEvent;
        this._schedules.take(event);
        if (event.kind === 'stream.begin') {
          await this._begin(event);
          live();
        } else {
          this._take(event);
        }
        this.client.written.take(event);
      }
    }
  }

  /** The stream has started: it resumes after the last event or says what must be read again. */
  private async _begin(event: PoolEvent): Promise<void> {
    this._stream = event.subject;
    this._silence = 1000 * HEARTBEATS * Number(event.data['heartbeat']);
    if (event.data['resumed']) {
      this._set({ connection: 'live', problem: null });
    } else {
      this._apply();
      await this._load();
    }
  }

  private _wait(milliseconds: number): Promise<void> {
    return new Promise(resolve => {
      const done = () => {
        clearTimeout(timer);
        window.removeEventListener('online', done);
        resolve();
      };
      const timer = setTimeout(done, milliseconds);
      window.addEventListener('online', done);
      this._wake = done;
    });
  }

  private async _load(): Promise<void> {
    const [me, pool, projects, { sessions }, { jobs: first, ...has }] = await Promise.all([
      this.client.me(),
      this.client.pool(),
      this._everything ? this.client.projects() : this._state.projects,
      this.client.sessions(),
      firstJobs(this.client, this._everything)
    ]);
    // Keep jobs that ended long ago: a card may show them, and they no longer change.
    const past = [...this._state.jobs.values()].filter(job => isFinal(job.state));
    const jobs = new Map([...past, ...first].map(job => [job.id, job]));
    for (const job of this._state.jobs.values()) {
      const now = jobs.get(job.id);
      if (now && job.mine && !isFinal(job.state) && isFinal(now.state)) {
        this._ended.push(now);
      }
    }
    this._set({ connection: 'live', problem: null, me, pool, projects, sessions, jobs, ...has });
    this._announce();
  }

  // -- events -----------------------------------------------------------------------------------------------

  private _take(event: PoolEvent): void {
    this._gathered.push(event);
    this._gathering ??= setTimeout(() => this._apply(), this._timing.gather);
  }

  /** Applies the latest events to the state in one step. */
  private _apply(): void {
    const events = this._gathered;
    this._gathered = [];
    clearTimeout(this._gathering);
    this._gathering = undefined;
    const jobs: JobView[] = [];
    const gone = new Set<string>();
    let sessions = this._state.sessions;
    let pool = false;
    for (const event of events) {
      if (event.kind === 'view.figures') {
        this._putFigures(event.data as Partial<ViewFigures>, jobs);
        continue;
      }
      // Read GPU use again where it is shown: for all GPUs, or for those of the caller's sessions.
      pool ||= this._everything || /^(session|pool|gpu)\./.test(event.kind);
      if (event.job) {
        jobs.push(event.job);
        gone.delete(event.job.id);
      } else if (event.kind === 'job.deleted') {
        gone.add(event.subject);
      }
      if (event.kind.startsWith('session.')) {
        const open = event.session?.state === 'ended' ? null : event.session;
        sessions = sessions.filter(other => other.id !== event.subject).concat(open ?? []);
      }
    }
    if (sessions !== this._state.sessions) {
      this._set({ sessions });
    }
    this._putJobs(jobs, gone);
    if (pool) {
      this._refresh();
    }
  }

  /** Applies the current figures; those of jobs go to `jobs`. */
  private _putFigures(figures: Partial<ViewFigures>, jobs: JobView[]): void {
    this._set(withFigures(this._state, figures));
    for (const row of figures.jobs ?? []) {
      const job = [...jobs].reverse().find(one => one.id === row.id) ?? this._state.jobs.get(row.id);
      if (job?.state === 'queued') {
        jobs.push({ ...job, ...row, reason: row.reason ?? job.reason });
      }
    }
  }

  private _putJobs(changed: readonly JobView[], gone: ReadonlySet<string> = new Set()): void {
    if (changed.length === 0 && gone.size === 0) {
      return;
    }
    const jobs = new Map(this._state.jobs);
    for (const job of changed) {
      const before = jobs.get(job.id);
      if (before && job.mine && !isFinal(before.state) && isFinal(job.state)) {
        this._ended.push(job);
      }
      jobs.set(job.id, job);
    }
    gone.forEach(id => jobs.delete(id));
    const kept = !trim(jobs);
    this._set({ hasAll: kept && this._state.hasAll, hasAllMine: kept && this._state.hasAllMine, jobs });
    this._announce();
  }

  private async _readPool(): Promise<void> {
    // A change from here on schedules another read, because this one may miss it.
    this._figuring = undefined;
    const began = Date.now();
    this._figured = began + this._timing.figures;
    try {
      const [pool, projects] = await Promise.all([
        this.client.pool(),
        this._everything ? this.client.projects() : this._state.projects
      ]);
      this._set(this._everything ? { pool, projects: [...projects] } : { pool });
    } catch {
      // Keep the old figures: if the scheduler is gone, the stream's end reports it.
    }
    this._figured = Math.max(this._figured, Date.now() + REST * (Date.now() - began));
  }

  private _ids(): string[] {
    return [...new Set([...this.client.written.jobs, ...[...this._rows].flat()])].slice(0, MOST_SHOWN).sort();
  }

  private _showsOthers(): void {
    if (!this.isDisposed) {
      this._showing ??= setTimeout(() => void this._tellShown(), this._timing.shows);
    }
  }

  private async _tellShown(): Promise<void> {
    this._showing = undefined;
    const shows = this._ids();
    const before = this._told.split(',');
    if (this._stream && shows.join() !== this._told) {
      this._told = shows.join();
      try {
        await this.client.show(this._stream, shows);
        this.client.written.ring(shows.filter(id => !before.includes(id)));
      } catch {
        // The next stream sends the list when it starts.
      }
    }
  }

  private _announce(): void {
    this._ended.splice(0).forEach(job => this._jobEnded.emit(job));
  }

  private _set(change: Partial<PoolState>): void {
    if (!this.isDisposed) {
      this._state = { ...this._state, ...change };
      this._stateChanged.emit(this._state);
    }
  }

  private readonly _timing: Timing;
  private readonly _disposed = new AbortController();
  private readonly _stateChanged = new Signal<IPoolModel, PoolState>(this);
  private readonly _jobEnded = new Signal<IPoolModel, JobView>(this);
  private _state = NOTHING;
  private readonly _schedules = new Schedules(this, schedules => this._set({ schedules }));
  private _started = false;
  private _last: { event: string; store: string } | null = null;
  private _store = '';
  private _stream: string | null = null;
  private _silence: number;
  private readonly _rows = new Set<readonly string[]>();
  private _showing: ReturnType<typeof setTimeout> | undefined;
  /** The ids of the jobs shown, as the scheduler knows them. */
  private _told = '';
  private _wake: (() => void) | undefined;
  private _gathered: PoolEvent[] = [];
  private _gathering: ReturnType<typeof setTimeout> | undefined;
  private _figuring: ReturnType<typeof setTimeout> | undefined;
  private _figured = 0;
  private _ended: JobView[] = [];
}
