/** The output of a sweep or a search: the kernel's table, or a live one where the kernel no longer updates it. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { Panel } from '@lumino/widgets';
import type { ReactElement } from 'react';
import { TransContext } from '../components/hooks';
import { SweepTable, type Sweep } from '../components/sweep';
import type { Trans } from '../trans';
import { DOMAIN } from './domain';
import { IJobActions, IPoolModel } from './tokens';

export const SWEEP_MIME = 'application/vnd.runai.sweep+json';

class Live extends ReactWidget {
  sweep: Sweep | null = null;

  constructor(
    private readonly _model: IPoolModel,
    private readonly _actions: IJobActions,
    private readonly _trans: Trans,
    private readonly _onLive: (live: boolean) => void
  ) {
    super();
  }

  protected override render(): ReactElement | null {
    return (
      this.sweep && (
        <TransContext.Provider value={this._trans}>
          <SweepTable sweep={this.sweep} model={this._model} actions={this._actions} onLive={this._onLive} />
        </TransContext.Provider>
      )
    );
  }
}

class SweepRenderer extends Panel implements IRenderMime.IRenderer {
  constructor(model: IPoolModel, actions: IJobActions, trans: Trans, drawn: IRenderMime.IRenderer) {
    super();
    this._drawn = drawn;
    this._live = new Live(model, actions, trans, live => drawn.setHidden(live));
    this.addWidget(drawn);
    this.addWidget(this._live);
  }

  async renderModel(output: IRenderMime.IMimeModel): Promise<void> {
    this._live.sweep = output.data[SWEEP_MIME] as unknown as Sweep;
    this._live.update();
    await this._drawn.renderModel(output);
  }

  private readonly _drawn: IRenderMime.IRenderer;
  private readonly _live: Live;
}

export const sweepPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-runai:sweep',
  description: 'Keeps the table of a sweep or a search up to date without its kernel.',
  autoStart: true,
  requires: [IPoolModel, IJobActions, IRenderMimeRegistry],
  optional: [ITranslator],
  activate: (
    _: JupyterFrontEnd,
    model: IPoolModel,
    actions: IJobActions,
    registry: IRenderMimeRegistry,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    registry.addFactory({
      safe: true,
      mimeTypes: [SWEEP_MIME],
      defaultRank: -20,
      createRenderer: () => new SweepRenderer(model, actions, trans, registry.createRenderer('text/html'))
    });
  }
};
