/** “1 running · 5 GPUs free” in the status bar, even while the panel is closed; a click opens the panel. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Signal } from '@lumino/signaling';
import { usePool } from '../components/hooks';
import { gpus } from '../model/format';
import { countsOf, type IPoolModel as Model, type PoolState } from '../model/state';
import type { Trans } from '../trans';
import { DOMAIN } from './domain';
import { gpuIcon } from './icon';
import { IPoolModel, PANEL_ID } from './tokens';

export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-runai:status',
  description: 'Shows the user’s jobs and the free GPUs in the status bar.',
  autoStart: true,
  requires: [IPoolModel],
  optional: [IStatusBar, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    model: Model,
    statusBar: IStatusBar | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const open = () => app.shell.activateById(PANEL_ID);
    const activeStateChanged = new Signal<unknown, void>(model);
    model.stateChanged.connect(() => activeStateChanged.emit());
    statusBar?.registerStatusItem(statusPlugin.id, {
      item: ReactWidget.create(<Status model={model} trans={trans} open={open} />),
      align: 'left',
      rank: 4,
      isActive: () => model.state.connection === 'live',
      activeStateChanged
    });
  }
};

interface StatusProps {
  model: Model;
  trans: Trans;
  open: () => void;
}

function Status({ model, trans, open }: StatusProps) {
  const text = inWords(usePool(model), trans);
  return (
    <button type="button" className="runai-Status" title={trans.__('GPU pool: %1', text)} onClick={open}>
      <gpuIcon.react tag="span" height="14px" width="14px" />
      {text}
    </button>
  );
}

function inWords(state: PoolState, trans: Trans): string {
  const { running, stopping, waiting } = countsOf(state, 'mine');
  const { pool } = state;
  return [
    running ? trans.__('%1 running', running) : '',
    stopping ? trans.__('%1 stopping', stopping) : '',
    waiting ? trans.__('%1 waiting', waiting) : '',
    pool ? trans.__('%1 free', gpus(pool.train.free, trans)) : ''
  ]
    .filter(Boolean)
    .join(' · ');
}
