/** Which view the page shows: its address says so (`#projects`), so that it can be kept, sent and gone back to. */
import { useSyncExternalStore } from 'react';

export const VIEWS = ['pool', 'projects', 'jobs', 'nodes'] as const;

export type ViewName = (typeof VIEWS)[number];

/** The view of an address; the pool's where there is no such view. */
export function viewOf(hash: string): ViewName {
  const name = hash.replace(/^#/, '');
  return VIEWS.find(view => view === name) ?? 'pool';
}

function follow(changed: () => void): () => void {
  window.addEventListener('hashchange', changed);
  return () => window.removeEventListener('hashchange', changed);
}

export function useView(): ViewName {
  return useSyncExternalStore(follow, () => viewOf(location.hash));
}
