/**
 * How requests reach the scheduler. JupyterLab goes through the user's own server, the administrator's page directly to
 * the service; the code above is the same for both.
 */
import type { Problem } from './api';

export interface ITransport {
  /** Sends a request to a path below `/api/v1/` and returns the response, whatever its status; rejects without one. */
  send(path: string, init?: RequestInit): Promise<Response>;
  /** The URL at which the browser may fetch such a path; absent if it may not. */
  address?(path: string): string;
}

/** An error as a sentence for users. `status` is 0 if there was no response. */
export class PoolError extends Error {
  constructor(
    message: string,
    readonly status = 0,
    readonly field: string | null = null
  ) {
    super(message);
    this.name = 'PoolError';
  }

  /** Whether to retry soon: not after a deliberate refusal. */
  get passing(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export const UNREACHABLE = 'The scheduler of the GPU pool does not answer. Running jobs continue. Reconnecting…';

/** The error of a response: the detail of its problem, or a sentence for its status. */
export async function errorOf(response: Response): Promise<PoolError> {
  let problem: Partial<Problem> & { message?: unknown } = {};
  try {
    problem = (await response.json()) as typeof problem;
  } catch {
    // Not JSON: an error page of a proxy.
  }
  const said = problem.detail || (typeof problem.message === 'string' ? problem.message : '');
  return new PoolError(said || sentenceFor(response.status), response.status, problem.field ?? null);
}

function sentenceFor(status: number): string {
  if (status === 401 || status === 403) {
    return 'You do not have access to the GPU pool. Sign in again, or ask an administrator for access.';
  }
  if (status === 404) {
    return 'Not found, or you do not have access to it.';
  }
  if (status >= 500) {
    return UNREACHABLE;
  }
  return `The scheduler refused the request (${status}).`;
}

/** Waits for a time, or until the signal aborts. */
export function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener('abort', done);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
  });
}
