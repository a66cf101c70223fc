/**
 * Saves a notebook when a job's card is added to it. The job and its output continue when the page is closed, so the
 * card must be saved even if the page is closed before JupyterLab's autosave.
 */
import type { IDocumentManager } from '@jupyterlab/docmanager';
import type { Widget } from '@lumino/widgets';

/** The jobs whose notebooks were saved. */
const saved = new Set<string>();

/** Saves once per job, and only if autosave is on. */
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
