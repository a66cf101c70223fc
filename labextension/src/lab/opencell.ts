/** Shows a cell: in an open notebook that has it, which may have been renamed, or in the notebook that it was in. */
import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { IDocumentManager } from '@jupyterlab/docmanager';
import type { NotebookCellSubmit } from '../model/api';
import type { Trans } from '../trans';

/** The pauses, in milliseconds and number, in which a cell has to stay in view, and after which it is left where it is. */
const PAUSE = 50;
const STAYS = 6;
const TRIES = 60;

/** The parts of JupyterLab's notebooks that are used here. */
interface INotebook {
  activeCellIndex: number;
  readonly node: HTMLElement;
  readonly widgets: readonly { readonly node: HTMLElement; readonly model: { readonly id: string } }[];
  scrollToItem(index: number): Promise<void>;
}

/** Throws an error with a sentence where there is no such cell. */
export async function openCell(
  app: JupyterFrontEnd,
  documents: IDocumentManager,
  { notebook, id }: NotebookCellSubmit,
  trans: Trans
): Promise<void> {
  const open = [...app.shell.widgets('main')].find(widget => indexOf(contentOf(widget), id) >= 0);
  if (open) {
    app.shell.activateById(open.id);
    return show(contentOf(open)!, id);
  }
  const file = await app.serviceManager.contents.get(notebook, { content: false }).catch(() => null);
  const widget = file && documents.openOrReveal(notebook);
  await widget?.revealed;
  const content = contentOf(widget);
  if (indexOf(content, id) < 0) {
    throw new Error(
      widget ? trans.__('The cell is no longer in %1.', notebook) : trans.__('There is no notebook %1.', notebook)
    );
  }
  return show(content!, id);
}

function contentOf(widget: unknown): INotebook | null {
  const content = (widget as { content?: Partial<INotebook> } | null | undefined)?.content;
  return content && 'activeCellIndex' in content ? (content as INotebook) : null;
}

function indexOf(notebook: INotebook | null, id: string): number {
  return notebook ? notebook.widgets.findIndex(cell => cell.model.id === id) : -1;
}

/** Scrolls until the cell stays in view: a notebook that has just been opened changes its height as its cells appear. */
async function show(notebook: INotebook, id: string): Promise<void> {
  const index = indexOf(notebook, id);
  notebook.activeCellIndex = index;
  for (let tries = 0, stays = 0; tries < TRIES && stays < STAYS; tries++) {
    if (isInView(notebook.widgets[index]?.node, notebook.node)) {
      stays++;
    } else {
      stays = 0;
      notebook.scrollToItem(index).catch(() => undefined); // another scroll took its place
    }
    await new Promise(done => setTimeout(done, PAUSE));
  }
}

function isInView(cell: HTMLElement | undefined, notebook: HTMLElement): boolean {
  const [inner, outer] = [cell?.getBoundingClientRect(), notebook.getBoundingClientRect()];
  return !!inner && inner.height > 0 && inner.top < outer.bottom && inner.bottom > outer.top;
}
