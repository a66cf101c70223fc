/** The scheduler's API as functions: each answers the view it names or rejects with a `PoolError`. */
import type {
  Applied,
  AuditPage,
  DisplayLine,
  JobPage,
  JobState,
  JobView,
  Me,
  MetricsPage,
  OutputFile,
  OutputList,
  PoolView,
  ProjectEntry,
  ProjectList,
  ProjectView,
  SessionList,
  SessionView,
  UsageReport
} from './api';
import { errorOf, PoolError, UNREACHABLE, type ITransport } from './transport';

export type JobVerb = 'cancel' | 'pause' | 'resume' | 'delete';

/** A project, and the version of what is declared of it: a change of it is refused once it has another. */
export interface SeenProject {
  view: ProjectView;
  version: string;
}

export interface JobQuery {
  states?: readonly JobState[];
  project?: string;
  user?: string;
  limit?: number;
  after?: string;
}

export type Dimension = 'project' | 'user' | 'gpu_type' | 'environment';

/** What was used from one instant to another, by what, and in which periods. */
export interface UsageQuery {
  since: number;
  until: number;
  by: Dimension;
  every: NonNullable<UsageReport['every']>;
}

export interface EventQuery {
  /** The last event that was read, of the store that counted it; null: from now on. */
  after: { event: string; store: string } | null;
  /** The waiting jobs whose places in line are shown. */
  shows: readonly string[];
  /** Whether the figures of all projects are shown, or of one's own. */
  allProjects: boolean;
}

export interface EventStream {
  body: ReadableStream<Uint8Array>;
  store: string;
}

export class Client {
  constructor(private readonly _transport: ITransport) {}

  me(): Promise<Me> {
    return this._json('me');
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

  /** What adding, changing or removing a project would bring about. */
  previewProject(entry: ProjectEntry, remove: boolean): Promise<Applied> {
    return this._json(`pool/preview${remove ? '?remove=true' : ''}`, withJson('POST', entry));
  }

  /** Changes the project that was seen, or adds one that is not there yet. */
  async putProject(entry: ProjectEntry, seen: string | null): Promise<void> {
    await this._send(projectPath(entry.name), withJson('PUT', entry, only(seen)));
  }

  async removeProject(name: string, seen: string): Promise<void> {
    await this._send(projectPath(name), { method: 'DELETE', headers: only(seen) });
  }

  /** Who changed what of the pool, newest first; `after` is `next` of the page before. */
  audit(after: number | null): Promise<AuditPage> {
    return this._json(after === null ? 'audit' : `audit?after=${after}`);
  }

  usage(query: UsageQuery): Promise<UsageReport> {
    return this._json(`usage?${searchOf(query)}`);
  }

  /** The same as a table for spreadsheets. */
  async usageTable(query: UsageQuery): Promise<Blob> {
    return (await this._send(`usage.csv?${searchOf(query)}`)).blob();
  }

  /** Gives a node no new work, for a reason; null: it takes work again. */
  async drain(node: string, reason: string | null): Promise<void> {
    const init = reason === null ? { method: 'DELETE' } : withJson('PUT', { reason });
    await this._send(`nodes/${encodeURIComponent(node)}/drain`, init);
  }

  async sessions(): Promise<SessionView[]> {
    return (await this._json<SessionList>('sessions')).sessions;
  }

  jobs(query: JobQuery = {}): Promise<JobPage> {
    const search = new URLSearchParams();
    for (const state of query.states ?? []) {
      search.append('state', state);
    }
    for (const key of ['project', 'user', 'limit', 'after'] as const) {
      if (query[key] !== undefined) {
        search.set(key, String(query[key]));
      }
    }
    return this._json(`jobs?${search}`);
  }

  job(id: string): Promise<JobView> {
    return this._json(`jobs/${encodeURIComponent(id)}`);
  }

  act(id: string, verb: Exclude<JobVerb, 'delete'>): Promise<JobView> {
    return this._json(`jobs/${encodeURIComponent(id)}/${verb}`, { method: 'POST' });
  }

  /** Deletes a job that has ended, with all it left. */
  async delete(id: string): Promise<void> {
    await this._send(`jobs/${encodeURIComponent(id)}`, { method: 'DELETE' });
  }

  /** The bytes of a worker's log from `offset` on. */
  async log(id: string, attempt: number, offset: number, signal?: AbortSignal): Promise<Uint8Array> {
    const search = new URLSearchParams({
      rank: '0',
      attempt: String(attempt),
      offset: String(offset)
    });
    const response = await this._send(`jobs/${encodeURIComponent(id)}/logs?${search}`, { signal });
    return new Uint8Array(await response.arrayBuffer());
  }

  /** The metrics that a job has reported, from `offset`. */
  metrics(id: string, offset: number, signal?: AbortSignal): Promise<MetricsPage> {
    return this._json(`jobs/${encodeURIComponent(id)}/metrics?offset=${offset}`, { signal });
  }

  /** What a job shows after a line of that, as output messages; a bounded page. */
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
    const path = `jobs/${encodeURIComponent(id)}/display?${search}`;
    const text = await (await this._send(path, { signal })).text();
    return text
      .split('\n')
      .filter(Boolean)
      .map(line => JSON.parse(line) as DisplayLine);
  }

  /** The files that a job has left in its output folder. */
  async files(id: string): Promise<OutputFile[]> {
    return (await this._json<OutputList>(`jobs/${encodeURIComponent(id)}/outputs`)).files;
  }

  /** Where the browser finds one of them; null where it has to ask otherwise. */
  fileAddress(id: string, path: string): string | null {
    const below = path.split('/').map(encodeURIComponent).join('/');
    return this._transport.address?.(`jobs/${encodeURIComponent(id)}/outputs/${below}`) ?? null;
  }

  /** An open event stream for a view of the pool. */
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

  /** Says which jobs the view shows from now on. */
  async show(stream: string, jobs: readonly string[]): Promise<void> {
    await this._send(`events/${encodeURIComponent(stream)}`, withJson('POST', { jobs }));
  }

  private async _json<T>(path: string, init?: RequestInit): Promise<T> {
    const response = await this._send(path, init);
    return (await response.json()) as T;
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

function withJson(method: string, body: unknown, headers: Record<string, string> = {}): RequestInit {
  return { method, headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(body) };
}

function projectPath(name: string): string {
  return `projects/${encodeURIComponent(name)}`;
}

/** Only what was seen is changed; nothing seen: only where there is nothing. */
function only(seen: string | null): Record<string, string> {
  return seen === null ? { 'If-None-Match': '*' } : { 'If-Match': seen };
}

function searchOf(query: UsageQuery): URLSearchParams {
  return new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
}
