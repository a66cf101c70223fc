/**
 * “Train this cell”: a dialog writes the magic's line at the top of the active cell and runs the cell. The notebook
 * records how its output was made, and running the cell again trains again.
 */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification, type ISessionContext } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { CellSubmission, CELL_MAGIC, lineOf, withLine } from '../model/cellsubmission';
import { CellKernel } from './cellkernel';
import { DOMAIN } from './domain';
import { gpuIcon } from './icon';
import { submitDialog } from './submit';
import { IPoolModel } from './tokens';
import { ServerTransport } from './transport';

const TRAIN_CELL = 'runai:train-cell';

/** The parts of JupyterLab's notebooks that are used here. */
interface INotebook {
  activeCellIndex: number;
  readonly activeCell: ICell | null;
  readonly widgets: readonly ICell[];
}

interface ICell {
  readonly node: HTMLElement;
  readonly model: {
    readonly type: string;
    readonly sharedModel: { getSource(): string; setSource(source: string): void };
  };
}

export const cellPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-runai:cell',
  description: 'Trains a cell on the GPU pool, from its toolbar, its menu or the palette.',
  autoStart: true,
  requires: [IPoolModel],
  optional: [ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    model: IPoolModel,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const server = new ServerTransport(app.serviceManager.serverSettings, 'runai');
    app.commands.addCommand(TRAIN_CELL, {
      label: trans.__('Train This Cell…'),
      caption: trans.__('Run this cell on the GPU pool'),
      icon: gpuIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            clicked: { type: 'boolean', description: 'Whether to train the cell that the menu was opened on.' }
          }
        }
      },
      isVisible: args => args.clicked === true || notebookOf(app)?.activeCell?.model.type === 'code',
      execute: async args => {
        const notebook = notebookOf(app);
        const context = contextOf(app);
        if (notebook && args.clicked) {
          activateClicked(app, notebook);
        }
        const source = notebook?.activeCell?.model.sharedModel;
        if (!source) {
          return;
        }
        try {
          const other = otherMagic(source.getSource());
          if (other) {
            throw new Error(trans.__('%1 takes the whole cell. Remove it to train the cell on the pool.', other));
          }
          const kernel = context && new CellKernel(context);
          const submission = await CellSubmission.of(server, source.getSource(), kernel);
          const line = await submitDialog(submission, model, trans.__('Train this cell on the GPU pool'), trans);
          if (line) {
            source.setSource(withLine(source.getSource(), line));
            await app.commands.execute('notebook:run-cell');
          }
        } catch (error) {
          Notification.error((error as Error).message, { autoClose: 8000 });
        }
      }
    });
    palette?.addItem({ command: TRAIN_CELL, category: trans.__('GPU pool') });
  }
};

/** The current notebook. */
function notebookOf(app: JupyterFrontEnd): INotebook | null {
  const content = (app.shell.currentWidget as { content?: Partial<INotebook> } | null)?.content;
  return content && 'activeCellIndex' in content ? (content as INotebook) : null;
}

/** The session of the current notebook. */
function contextOf(app: JupyterFrontEnd): ISessionContext | null {
  return (app.shell.currentWidget as { sessionContext?: ISessionContext } | null)?.sessionContext ?? null;
}

/** The cell of the context menu, which is not always the active one. */
function activateClicked(app: JupyterFrontEnd, notebook: INotebook): void {
  const node = app.contextMenuHitTest(node => node.classList.contains('jp-Cell'));
  const index = notebook.widgets.findIndex(cell => cell.node === node);
  if (index >= 0) {
    notebook.activeCellIndex = index;
  }
}

/** Another cell magic in the cell. */
function otherMagic(source: string): string {
  const word = source.trimStart().split(/\s/, 1)[0]!;
  return word.startsWith('%%') && !lineOf(source) && word !== CELL_MAGIC ? word : '';
}
