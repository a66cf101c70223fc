import { PoolError, type ITransport } from '../model/transport';

const SIGNED_OUT = 'You are signed out of the GPU pool. Reload the page to sign in again.';

/** Sends requests to the service as the user of the browser's cookie, with the XSRF token that the hub requires. */
export class ServiceTransport implements ITransport {
  /** `signedOut` is called when the service no longer accepts the cookie, for example after a restart. */
  constructor(
    private readonly _baseUrl: string,
    private readonly _signedOut: () => void
  ) {}

  async send(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    headers.set('X-XSRFToken', xsrfToken(document.cookie));
    const response = await fetch(`${this._baseUrl}api/v1/${path}`, {
      ...init,
      headers,
      credentials: 'same-origin',
      cache: 'no-store'
    });
    if (response.status === 401) {
      this._signedOut();
      throw new PoolError(SIGNED_OUT, 401);
    }
    return response;
  }
}

/** The first `_xsrf` cookie: browsers send the cookie with the longest path first, which is the service's own. */
export function xsrfToken(cookies: string): string {
  return /(?:^|;\s*)_xsrf=([^;]*)/.exec(cookies)?.[1]?.replace(/^"|"$/g, '') ?? '';
}
