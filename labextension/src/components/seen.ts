/** Whether an element can be seen: JupyterLab keeps the tabs behind the current one in the page. */

export function isSeen(element: HTMLElement | null): boolean {
  return !document.hidden && element !== null && element.offsetParent !== null;
}

/** Calls `seen` whenever the element may have come into view, until the returned function is called. */
export function watchSeen(element: HTMLElement | null, seen: () => void): () => void {
  // jsdom has no such observer.
  const observer = typeof IntersectionObserver === 'undefined' ? null : new IntersectionObserver(seen);
  if (element) {
    observer?.observe(element);
  }
  document.addEventListener('visibilitychange', seen);
  return () => {
    observer?.disconnect();
    document.removeEventListener('visibilitychange', seen);
  };
}
