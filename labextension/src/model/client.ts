/** The scheduler's API as functions: each returns the view that it names or rejects with a `PoolError`. */
import type {
  Applied,
  AuditPage,
  DemandForecast,
  DisplayLine,
  Explanation,
  GpuHistory,
  JobGpuUse,
  JobPage,
  JobSubmit,
  JobView,
  LatestReport,
  LatestReports,
  Me,
  LogTimes,
  MetricsPage,
  NodeGpus,
  NoticesChoice,
  NoticesTested,
  NoticesView,
  NodeMove,
  OutputFile,
  OutputList,
  PolicyList,
  PolicyView,
  PoolFile,
  PoolHistory,
  PoolView,
  ProjectEntry,
  ProjectList,
  ProjectView,
  ScheduleChange,
  ScheduleList,
  ScheduleView,
  SessionList,
  UsageReport,
  UserList,
  WhatIfAsk,
  WhatIfReport
} from './api';
import {
  logPath,
  only,
  outputPath,
  projectPath,
  schedulePath,
  searchOf,
  withJson,
  type AuditQuery,
  type EventQuery,
  type JobQuery,
  type SeenPoolFile,
  type UsageQuery
} from './requests';
import { errorOf, PoolError, UNREACHABLE, type ITransport } from './transport';
import { Written } from './written';

export type ScheduleVerb = 'pause' | 'resume' | 'run' | 'remove';

export type JobVerb = 'cancel' | 'pause' | 'resume' | 'delete';

/** A project and the version of its declaration; a change is refused if the version no longer matches. */
export interface SeenProject {
  view: ProjectView;
  version: string;
}

export interface EventStream {
  body: ReadableStream<Uint8Array>;
  store: string;
}

export class Client {
  /** Wakes readers of what jobs write; the model that follows the event stream feeds it. */
  readonly written = new Written();
  constructor(private readonly _transport: ITransport) {}

  me(): Promise<Me> {
    return this._json('me');
  }

  notices(): Promise<NoticesView> {
    return this._json('me/notices');
  }

  /** Without an address, the saved one of the channel is kept. */
  chooseNotices(choice: NoticesChoice): Promise<NoticesView> {
    return this._json('me/notices', withJson('PUT', choice));
  }

  testNotices(): Promise<NoticesTested> {
    return this._json('me/notices/test', { method: 'POST' });
  }

  pool(): Promise<PoolView> {
    return this._json('pool');
  }

  async projects(): Promise<ProjectView[]> {
    return (await this._json<ProjectList>('projects')).projects;
  }

  async project(name: string): Promise<SeenProject> {
    const response = await this._send(projectPath(name));
    return { view: (await response.json()) as ProjectView, version: response.headers.get('ETag') ?? '' };
  }

  /** The effects of adding, changing or removing a project. */
  previewProject(entry: ProjectEntry, remove: boolean): Promise<Applied> {
    return this._json(`pool/preview${remove ? '?remove=true' : ''}`, withJson('POST', entry));
  }

  /** Changes the project version that the user saw, or adds a project that does not exist yet. */
  async putProject(entry: ProjectEntry, seen: string | null): Promise<void> {
    await this._send(projectPath(entry.name), withJson('PUT', entry, only(seen)));
  }

  async removeProject(name: string, seen: string): Promise<void> {
    await this._send(projectPath(name), { method: 'DELETE', headers: only(seen) });
  }

  /** Who changed what in the pool, newest first. */
  audit(query: AuditQuery): Promise<AuditPage> {
    return this._json(`audit?${searchOf(query)}`);
  }

  /** The use of the pool and its queue since an instant, in about so many points. */
  poolHistory(since: number, points: number): Promise<PoolHistory> {
    return this._json(`pool/history?since=${since}&points=${points}`);
  }

  usage(query: UsageQuery): Promise<UsageReport> {
    return this._json(`usage?${searchOf(query)}`);
  }

  /** The same as CSV. */
  async usageTable(query: UsageQuery): Promise<Blob> {
    return (await this._send(`usage.csv?${searchOf(query)}`)).blob();
  }

  /** The forecast of the demand for GPUs for a week, by the hour. */
  forecast(): Promise<DemandForecast> {
    return this._json('usage/forecast');
  }

  /** Simulates the recorded jobs on the pool as it is and on a changed one, which may take minutes. */
  whatIf(change: WhatIfAsk, signal: AbortSignal): Promise<WhatIfReport> {
    return this._json('usage/what-if', { ...withJson('POST', change), signal });
  }

  /** Drains a node for a reason; null: undrains it. */
  async drain(node: string, reason: string | null): Promise<void> {
    const init = reason === null ? { method: 'DELETE' } : withJson('PUT', { reason });
    await this._send(`nodes/${encodeURIComponent(node)}/drain`, init);
  }

  /** Moves a node to another node pool, or only returns what that would change. */
  moveNode(node: string, nodePool: string, preview: boolean): Promise<Applied> {
    const path = `nodes/${encodeURIComponent(node)}/node-pool${preview ? '?preview=true' : ''}`;
    return this._json(path, withJson('PUT', { node_pool: nodePool } satisfies NodeMove));
  }

  /** The pool file with its version. */
  async seenPoolFile(): Promise<SeenPoolFile> {
    const response = await this._send('pool/file');
    return { file: (await response.json()) as PoolFile, version: response.headers.get('ETag') ?? '' };
  }

  /** Applies a change of the version that the user saw, or only returns what it would change. */
  applyPool({ file, version }: SeenPoolFile, preview: boolean): Promise<Applied> {
    return this._json(`pool/apply${preview ? '?preview=true' : ''}`, withJson('POST', file, only(version)));
  }

  async policies(): Promise<PolicyView[]> {
    return (await this._json<PolicyList>('policies')).policies;
  }

  /** What the GPUs of a node report now. */
  nodeGpus(node: string): Promise<NodeGpus> {
    return this._json(`nodes/${encodeURIComponent(node)}/gpus`);
  }

  /** The use of a GPU from a point in time until now, in about as many points. */
  gpuHistory(node: string, gpu: number, since: number, points: number): Promise<GpuHistory> {
    return this._json(`nodes/${encodeURIComponent(node)}/gpus/${gpu}/history?since=${since}&points=${points}`);
  }

  /** A page of users, sorted by name; `find`: only those whose name, or a group's name, contains this text. */
  users(find: string, after: string | null): Promise<UserList> {
    return this._json(`users?${new URLSearchParams({ find, after: after ?? '' })}`);
  }

  /** Sets the build quota of a user, or of each user of a group; null removes it. */
  async setBuildQuota(of: 'users' | 'groups', name: string, gpus: number | null): Promise<void> {
    const init = gpus === null ? { method: 'DELETE' } : withJson('PUT', { gpus });
    await this._send(`${of}/${encodeURIComponent(name)}/build-quota`, init);
  }

  /** Stops the notebook server of a session. */
  async stopSession(id: string): Promise<void> {
    await this._send(`sessions/${encodeURIComponent(id)}/stop`, { method: 'POST' });
  }

  /** The sessions that the caller may see, and the servers in line for GPUs. */
  async sessions(): Promise<SessionList> {
    return this._json<SessionList>('sessions');
  }

  /** The caller's schedules, by name. */
  async schedules(): Promise<ScheduleView[]> {
    return (await this._json<ScheduleList>('schedules')).schedules;
  }

  async pauseSchedule(id: string, paused: boolean): Promise<void> {
    const change: Pick<ScheduleChange, 'active'> = { active: !paused };
    await this._send(schedulePath(id), withJson('PATCH', change));
  }

  /** Submits the job of a schedule now. */
  runSchedule(id: string): Promise<JobView> {
    return this._json(`${schedulePath(id)}/run`, { method: 'POST' });
  }

  /** Removes a schedule; its jobs stay. */
  async removeSchedule(id: string): Promise<void> {
    await this._send(schedulePath(id), { method: 'DELETE' });
  }

  jobs(query: JobQuery = {}): Promise<JobPage> {
    const search = new URLSearchParams();
    for (const state of query.states ?? []) {
      search.append('state', state);
    }
    for (const key of ['mine', 'find', 'project', 'user', 'array', 'limit', 'sort', 'order', 'after'] as const) {
      if (query[key] !== undefined) {
        search.set(key, String(query[key]));
      }
    }
    return this._json(`jobs?${search}`);
  }

  /** All jobs of an array. */
  async array(id: string): Promise<JobView[]> {
    const jobs: JobView[] = [];
    for (let after: string | null = ''; after !== null;) {
      const page: JobPage = await this.jobs({ array: id, limit: 500, ...(after ? { after } : {}) });
      jobs.push(...page.jobs);
      after = page.next;
    }
    return jobs;
  }

  job(id: string): Promise<JobView> {
    return this._json(`jobs/${encodeURIComponent(id)}`);
  }

  act(id: string, verb: Exclude<JobVerb, 'delete'>): Promise<JobView> {
    return this._json(`jobs/${encodeURIComponent(id)}/${verb}`, { method: 'POST' });
  }

  /** Changes the priority of an unfinished job within its project. */
  async setPriority(id: string, priority: number): Promise<void> {
    await this._send(`jobs/${encodeURIComponent(id)}`, withJson('PATCH', { priority }));
  }

  /** Deletes a finished job with all its data. */
  async delete(id: string): Promise<void> {
    await this._send(`jobs/${encodeURIComponent(id)}`, { method: 'DELETE' });
  }

  /** The bytes of a worker's log from `offset` on. */
  async log(id: string, attempt: number, rank: number, offset: number, signal?: AbortSignal): Promise<Uint8Array> {
    const path = logPath(id, 'logs', attempt, rank, offset);
    return new Uint8Array(await (await this._send(path, { signal })).arrayBuffer());
  }

  gpuUse(id: string, attempt: number): Promise<JobGpuUse> {
    return this._json(`jobs/${encodeURIComponent(id)}/gpu-use?attempt=${attempt}`);
  }

  /** The lengths that a worker's log had, from `offset` on, with their times. */
  async logTimes(id: string, attempt: number, rank: number, offset: number, signal?: AbortSignal) {
    return (await this._json<LogTimes>(logPath(id, 'log-times', attempt, rank, offset), { signal })).times;
  }

  /** A worker's whole log as it is now. */
  async wholeLog(id: string, attempt: number, rank: number): Promise<Blob> {
    const parts: Uint8Array[] = [];
    for (let offset = 0; ;) {
      const part = await this.log(id, attempt, rank, offset);
      if (!part.length) {
        return new Blob(parts as BlobPart[], { type: 'text/plain' });
      }
      parts.push(part);
      offset += part.length;
    }
  }

  /** Why a job is in its state. */
  explain(id: string): Promise<Explanation> {
    return this._json(`jobs/${encodeURIComponent(id)}/explain`);
  }

  /** A job as it was submitted, without unset options. */
  submission(id: string): Promise<Partial<JobSubmit>> {
    return this._json(`jobs/${encodeURIComponent(id)}/submission`);
  }

  /** The metrics that a job has reported, from `offset` on. */
  metrics(id: string, offset: number, signal?: AbortSignal): Promise<MetricsPage> {
    return this._json(`jobs/${encodeURIComponent(id)}/metrics?offset=${offset}`, { signal });
  }

  /** The latest reports of these jobs, at most 100. */
  async latest(ids: readonly string[], signal?: AbortSignal): Promise<LatestReport[]> {
    const search = new URLSearchParams(ids.map(id => ['job', id]));
    return (await this._json<LatestReports>(`reports?${search}`, { signal })).reports;
  }

  /** What a job displays after a given line, as output messages; one bounded page. */
  async display(
    id: string,
    after: Pick<DisplayLine, 'attempt' | 'log' | 'display'>,
    signal?: AbortSignal
  ): Promise<DisplayLine[]> {
    const search = new URLSearchParams({
      attempt: String(after.attempt),
      log: String(after.log),
      display: String(after.display)
    });
    const text = await (await this._send(`jobs/${encodeURIComponent(id)}/display?${search}`, { signal })).text();
    return text
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line) as DisplayLine);
  }

  /** The files in a job's output folder. */
  async files(id: string): Promise<OutputFile[]> {
    return (await this._json<OutputList>(`jobs/${encodeURIComponent(id)}/outputs`)).files;
  }

  async file(id: string, path: string): Promise<Blob> {
    return (await this._send(outputPath(id, path))).blob();
  }

  /** The URL of such a file for the browser; null if the browser cannot fetch it directly. */
  fileAddress(id: string, path: string): string | null {
    return this._transport.address?.(outputPath(id, path)) ?? null;
  }

  /** Opens an event stream for a view of the pool. */
  async events(query: EventQuery, signal: AbortSignal): Promise<EventStream> {
    const headers: Record<string, string> = { Accept: 'text/event-stream' };
    const search = new URLSearchParams({ view: 'true' });
    if (query.after) {
      headers['Last-Event-ID'] = query.after.event;
      search.set('store', query.after.store);
    }
    for (const id of query.shows) {
      search.append('shows', id);
    }
    if (query.allProjects) {
      search.set('all_projects', 'true');
    }
    const response = await this._send(`events?${search}`, { headers, signal });
    if (!response.body) {
      throw new PoolError(UNREACHABLE);
    }
    return { body: response.body, store: response.headers.get('Runai-Store') ?? '' };
  }

  /** Sets the jobs that the view shows from now on. */
  async show(stream: string, jobs: readonly string[]): Promise<void> {
    await this._send(`events/${encodeURIComponent(stream)}`, withJson('POST', { jobs }));
  }

  private async _json<T>(path: string, init?: RequestInit): Promise<T> {
    return (await (await this._send(path, init)).json()) as T;
  }

  private async _send(path: string, init?: RequestInit): Promise<Response> {
    let response: Response;
    try {
      response = await this._transport.send(path, init);
    } catch (reason) {
      if (init?.signal?.aborted || reason instanceof PoolError) {
        throw reason;
      }
      throw new PoolError(UNREACHABLE);
    }
    if (!response.ok) {
      throw await errorOf(response);
    }
    return response;
  }
}
