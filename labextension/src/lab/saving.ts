/**
 * Has a notebook saved when a job's card has come into it. The job goes on whatever becomes of the page, and its output goes on
 * below its card: so the card must be there again, too, where the page is closed before JupyterLab saves by itself.
 */
import type { IDocumentManager } from '@jupyterlab/docmanager';
import type { Widget } from '@lumino/widgets';

/** The jobs whose notebooks were saved. */
const saved = new Set<string>();

/** Once for each job, and only where JupyterLab saves documents by itself. */
export function saveWith(job: string, card: Widget, documents: IDocumentManager): void {
  for (let above: Widget | null = card.parent; above; above = above.parent) {
    const context = documents.contextForWidget(above);
    if (context) {
      if (documents.autosave && context.model.dirty && !context.model.readOnly && !saved.has(job)) {
        saved.add(job);
        void context.save();
      }
      return;
    }
  }
}
