import type { ITransport } from '../model/transport';

/** Straight to the service, as the user whose cookie the browser has; the hub wants its XSRF token with every request. */
export class ServiceTransport implements ITransport {
  constructor(private readonly _baseUrl: string) {}

  send(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers);
    headers.set('X-XSRFToken', xsrfToken(document.cookie));
    return fetch(`${this._baseUrl}api/v1/${path}`, {
      ...init,
      headers,
      credentials: 'same-origin',
      cache: 'no-store'
    });
  }
}

/** The first `_xsrf` cookie: browsers name the one of the longest path first, which is the service's own. */
export function xsrfToken(cookies: string): string {
  return /(?:^|;\s*)_xsrf=([^;]*)/.exec(cookies)?.[1]?.replace(/^"|"$/g, '') ?? '';
}
