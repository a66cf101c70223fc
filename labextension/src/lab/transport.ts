import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import type { ITransport } from '../model/transport';

/** Through the user's own server, which holds their token for the scheduler: the browser never sees it. */
export class ServerTransport implements ITransport {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  send(path: string, init: RequestInit = {}): Promise<Response> {
    const url = URLExt.join(this._settings.baseUrl, 'runai/api/v1') + '/' + path;
    return ServerConnection.makeRequest(url, init, this._settings);
  }
}
