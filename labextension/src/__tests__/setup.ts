/** What JupyterLab's packages and the pages expect of a browser, and jsdom lacks. */
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

// Dialogs are only elements there.
HTMLDialogElement.prototype.showModal ??= function () {
  this.open = true;
};
HTMLDialogElement.prototype.close ??= function () {
  this.open = false;
  this.dispatchEvent(new Event('close'));
};
