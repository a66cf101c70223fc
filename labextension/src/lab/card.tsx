import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import type { ReactElement } from 'react';
import { JobCard } from '../components/card';
import { TransContext } from '../components/hooks';
import type { Trans } from '../trans';
import { DOMAIN } from './domain';
import { saveWith } from './saving';
import { OutputContinuation } from './continuation';
import { loadResults } from './results';
import { IJobActions, IPoolModel } from './tokens';

/** An output that holds only a job's id; the job's state is read when the output is shown. */
export const JOB_MIME = 'application/vnd.runai.job+json';

class CardRenderer extends ReactWidget implements IRenderMime.IRenderer {
  constructor(
    private readonly _model: IPoolModel,
    private readonly _actions: IJobActions,
    private readonly _documents: IDocumentManager | null,
    private readonly _trans: Trans
  ) {
    super();
    this.addClass('runai-CardRenderer');
  }

  async renderModel(output: IRenderMime.IMimeModel): Promise<void> {
    const data = output.data[JOB_MIME];
    const id = data && typeof data === 'object' && 'id' in data ? data.id : null;
    const text = output.data['text/plain'];
    this._id = typeof id === 'string' ? id : null;
    this._follows = !!data && typeof data === 'object' && 'follows' in data && !!data.follows;
    this._follow(this._follows);
    this._otherwise = Array.isArray(text) ? text.join('') : typeof text === 'string' ? text : '';
    this.update();
    await this.renderPromise;
  }

  protected override render(): ReactElement {
    return (
      <TransContext.Provider value={this._trans}>
        {this._id ? (
          <JobCard
            id={this._id}
            model={this._model}
            actions={this._actions}
            otherwise={this._otherwise}
            follows={this._follows}
            loadResults={job => loadResults(this, job, this._trans)}
          />
        ) : (
          <pre>{this._otherwise}</pre>
        )}
      </TransContext.Provider>
    );
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    if (this._follows && this._id && this._documents) {
      saveWith(this._id, this, this._documents);
    }
  }

  override dispose(): void {
    this._continuation?.dispose();
    super.dispose();
  }

  /** Whether the job's output is written below the card, by a kernel or, if there is none any more, by this page. */
  private _follow(follows: boolean): void {
    if (!follows || !this._id) {
      this._continuation?.dispose();
      this._continuation = null;
    } else {
      this._continuation ??= new OutputContinuation(
        { id: this._id, widget: this },
        this._model,
        JOB_MIME,
        this._trans.__('\n… see the log for the rest …\n')
      );
    }
  }

  private _continuation: OutputContinuation | null = null;
  private _follows = false;
  private _id: string | null = null;
  private _otherwise = '';
}

export const cardPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-runai:card',
  description: 'Shows the live state of a job of the GPU pool in an output that names it.',
  autoStart: true,
  requires: [IPoolModel, IJobActions, IRenderMimeRegistry],
  optional: [IDocumentManager, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    model: IPoolModel,
    actions: IJobActions,
    registry: IRenderMimeRegistry,
    documents: IDocumentManager | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    registry.addFactory({
      safe: true,
      mimeTypes: [JOB_MIME],
      // Before widgets (-10): a kernel that does not know this renderer sends a widget as well.
      defaultRank: -20,
      createRenderer: () => new CardRenderer(model, actions, documents, trans)
    });
  }
};
