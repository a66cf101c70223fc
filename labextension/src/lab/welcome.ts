/** Opens the sample notebook and the panel when a user opens JupyterLab for the first time. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { PANEL_ID } from './tokens';

const ID = 'jupyter-runai:welcome';

/** Where the spawner puts the notebook. */
const NOTEBOOK = 'First steps.ipynb';

export const welcomePlugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Opens the sample notebook and the panel at the first login.',
  autoStart: true,
  requires: [ISettingRegistry, IDocumentManager],
  activate: (app: JupyterFrontEnd, registry: ISettingRegistry, documents: IDocumentManager): void => {
    void app.restored.then(async () => {
      const settings = await registry.load(ID);
      // An address that names a file already says what to open.
      if (settings.composite.firstSteps === false || PageConfig.getOption('treePath')) {
        return;
      }
      await settings.set('firstSteps', false);
      // So do tabs that are restored; an empty main area has a launcher.
      if ([...app.shell.widgets('main')].some(({ id }) => !id.startsWith('launcher'))) {
        return;
      }
      try {
        await app.serviceManager.contents.get(NOTEBOOK, { content: false });
      } catch {
        return; // without a hub there is no sample notebook
      }
      documents.openOrReveal(NOTEBOOK);
      app.shell.activateById(PANEL_ID);
    });
  }
};
