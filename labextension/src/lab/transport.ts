import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { PoolError, type ITransport } from '../model/transport';

const NOT_ENABLED =
  'This notebook server does not know the GPU pool: enable its server extension with ' +
  '“jupyter server extension enable jupyter_ext” and restart the server.';

/** Sends requests through the user's own server, which holds the scheduler token: the browser never sees it. */
export class ServerTransport implements ITransport {
  /** @param _base - the server's base path: the scheduler's API, which it forwards, or its own API (`runai`). */
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    private readonly _base = 'runai/api/v1'
  ) {}

  address(path: string): string {
    return URLExt.join(this._settings.baseUrl, this._base) + '/' + path;
  }

  async send(path: string, init: RequestInit = {}): Promise<Response> {
    const url = this.address(path);
    const response = await ServerConnection.makeRequest(url, init, this._settings);
    if (response.status === 404 && !response.headers.get('Content-Type')?.includes('problem')) {
      throw new PoolError(NOT_ENABLED, 404);
    }
    return response;
  }
}
