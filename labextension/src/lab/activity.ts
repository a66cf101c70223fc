/** Reports user activity to the notebook server, at most twice a minute: an open page alone is not activity. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ServerTransport } from './transport';

const EVERY = 30_000;

/** Calls `tell` when the user types, clicks or scrolls, at most once per `every` milliseconds. Returns a disposer. */
export function follow(target: EventTarget, tell: () => void, every = EVERY): () => void {
  let last = -Infinity;
  const seen = () => {
    const now = performance.now();
    if (now - last >= every) {
      last = now;
      tell();
    }
  };
  const kinds = ['keydown', 'pointerdown', 'wheel'];
  kinds.forEach(kind => target.addEventListener(kind, seen, { capture: true, passive: true }));
  return () => kinds.forEach(kind => target.removeEventListener(kind, seen, { capture: true }));
}

export const activityPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-runai:activity',
  description: 'Tells when a person is at work, so that an idle GPU is seen.',
  autoStart: true,
  activate: ({ serviceManager }: JupyterFrontEnd): void => {
    const transport = new ServerTransport(serviceManager.serverSettings, 'runai');
    follow(document, () => void transport.send('activity', { method: 'POST' }).catch(() => undefined));
  }
};
