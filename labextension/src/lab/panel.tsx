import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { PageConfig } from '@jupyterlab/coreutils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { ReactWidget, SidePanel } from '@jupyterlab/ui-components';
import { Panel as LuminoPanel } from '@lumino/widgets';
import { TransContext } from '../components/hooks';
import { Panel } from '../components/panel';
import { DOMAIN } from './domain';
import { filterBox } from './filter';
import { gpuIcon } from './icon';
import { SUBMIT } from './submit';
import { IJobActions, IPoolModel, PANEL_ID } from './tokens';

export const panelPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-runai:panel',
  description: 'The panel of the GPU pool: my GPUs, my projects, jobs.',
  autoStart: true,
  requires: [IPoolModel, IJobActions],
  optional: [ILayoutRestorer, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    model: IPoolModel,
    actions: IJobActions,
    restorer: ILayoutRestorer | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const body = ReactWidget.create(
      <TransContext.Provider value={trans}>
        <Panel
          model={model}
          actions={actions}
          onNewJob={() => void app.commands.execute(SUBMIT.newJob)}
          server={PageConfig.getOption('hubUser') ? PageConfig.getOption('hubServerName') : null}
          filterBox={filterBox(trans)}
        />
      </TransContext.Provider>
    );
    body.addClass('runai-Body');
    // A single scrolling column: an accordion would give each section a third of the height, whatever its content.
    const panel = new SidePanel({
      content: new LuminoPanel(),
      ...(translator ? { translator } : {})
    });
    panel.id = PANEL_ID;
    panel.addClass('runai-SidePanel');
    panel.title.icon = gpuIcon;
    panel.title.caption = trans.__('GPU pool');
    panel.node.setAttribute('role', 'region');
    panel.node.setAttribute('aria-label', trans.__('GPU pool'));
    panel.content.addWidget(body);
    app.shell.add(panel, 'left', { rank: 350 });
    restorer?.add(panel, PANEL_ID);
  }
};
