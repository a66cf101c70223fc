/** Which view the page shows: its address says so (`#projects`), so that it can be kept, sent and gone back to. */
import { useSyncExternalStore } from 'react';

export const VIEWS = ['pool', 'projects', 'jobs', 'nodes', 'usage', 'audit'] as const;

export type ViewName = (typeof VIEWS)[number];

/** Those that only an administrator can see. */
export const ADMINISTRATORS: readonly ViewName[] = ['audit'];

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
