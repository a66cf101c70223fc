import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PoolModel } from '../model/pool';
import { IPoolModel } from './tokens';
import { ServerTransport } from './transport';

export const modelPlugin: JupyterFrontEndPlugin<IPoolModel> = {
  id: 'jupyter-runai:model',
  description: 'Follows the GPU pool for everything that shows it.',
  autoStart: true,
  provides: IPoolModel,
  activate: (app: JupyterFrontEnd): IPoolModel => {
    const model = new PoolModel(new ServerTransport(app.serviceManager.serverSettings));
    // Not before the page is there: it must not wait for the scheduler.
    void app.restored.then(() => model.start());
    return model;
  }
};
