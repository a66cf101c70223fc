/** Browser features that JupyterLab's packages and the pages need and jsdom lacks. */
import { configure } from '@testing-library/react';

// As in the browser tests: a busy machine is slow, not wrong.
configure({ asyncUtilTimeout: 30_000 });

globalThis.DragEvent ??= class extends MouseEvent {
  readonly dataTransfer = null;
} as unknown as typeof DragEvent;

window.matchMedia ??= query =>
  Object.assign(new EventTarget(), {
    matches: false,
    media: query,
    onchange: null,
    addListener: () => undefined,
    removeListener: () => undefined
  });

window.requestIdleCallback ??= run => window.setTimeout(() => run({ didTimeout: false, timeRemaining: () => 1 }));

// jsdom implements dialogs only as elements.
HTMLDialogElement.prototype.showModal ??= function () {
  this.open = true;
};
HTMLDialogElement.prototype.close ??= function () {
  this.open = false;
  this.dispatchEvent(new Event('close'));
};
