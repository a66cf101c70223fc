/** Parts of the requests to the scheduler: paths, queries, bodies and conditions. */
import type { AuditEntry, JobState, PoolFile, UsageReport } from './api';

export interface SeenPoolFile {
  file: PoolFile;
  version: string;
}

export type Dimension = 'project' | 'user' | 'gpu_type' | 'environment';

/** A usage query: the span, the grouping and the period length. */
export interface UsageQuery {
  since: number;
  until: number;
  by: Dimension;
  every: NonNullable<UsageReport['every']>;
}

/** The order of a list of jobs, in which the service reads its pages. */
export interface JobOrder {
  sort: 'submitted' | 'started' | 'waiting' | 'gpus' | 'priority' | 'project' | 'user';
  order: 'asc' | 'desc';
}

export interface JobQuery extends Partial<JobOrder> {
  states?: readonly JobState[];
  /** Only the caller's own jobs. */
  mine?: boolean;
  /** Words that occur in a job's name, owner, project, state or id. */
  find?: string;
  project?: string;
  user?: string;
  array?: string;
  limit?: number;
  after?: string;
}

export function withJson(method: string, body: unknown, headers: Record<string, string> = {}): RequestInit {
  return { method, headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(body) };
}

export function schedulePath(id: string): string {
  return `schedules/${encodeURIComponent(id)}`;
}

export function outputPath(id: string, path: string): string {
  return `jobs/${encodeURIComponent(id)}/outputs/${path.split('/').map(encodeURIComponent).join('/')}`;
}

export function logPath(id: string, what: string, attempt: number, rank: number, offset: number): string {
  return `jobs/${encodeURIComponent(id)}/${what}?rank=${rank}&attempt=${attempt}&offset=${offset}`;
}

export function projectPath(name: string): string {
  return `projects/${encodeURIComponent(name)}`;
}

/** Makes the request conditional: change only the version seen, or, without one, create only what does not exist. */
export function only(seen: string | null): Record<string, string> {
  return seen === null ? { 'If-None-Match': '*' } : { 'If-Match': seen };
}

export interface EventQuery {
  /** The last event read and the store that numbered it; null: from now on. */
  after: { event: string; store: string } | null;
  /** The waiting jobs whose queue positions are shown. */
  shows: readonly string[];
  /** Whether to send the figures of all projects, or only of the caller's own. */
  allProjects: boolean;
}

/** `after` is `next` of the previous page. */
export interface AuditQuery {
  readonly after?: number;
  readonly kind?: AuditEntry['kind'];
  readonly limit?: number;
}

export function searchOf(query: UsageQuery | AuditQuery): URLSearchParams {
  return new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]));
}
