import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PoolModel } from '../model/pool';
import { IPoolModel } from './tokens';
import { ServerTransport } from './transport';

export const modelPlugin: JupyterFrontEndPlugin<IPoolModel> = {
  id: 'jupyter-runai:model',
  description: 'Keeps the state of the GPU pool for all views.',
  autoStart: true,
  provides: IPoolModel,
  activate: (app: JupyterFrontEnd): IPoolModel => {
    const model = new PoolModel(new ServerTransport(app.serviceManager.serverSettings));
    // Connect after the page has loaded, which must not wait for the scheduler.
    void app.restored.then(() => model.start());
    return model;
  }
};
