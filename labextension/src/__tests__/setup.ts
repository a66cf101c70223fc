/** What JupyterLab's packages expect of a browser when they are imported, and jsdom lacks. */
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
