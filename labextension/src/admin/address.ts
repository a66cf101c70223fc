/**
 * The page's view as a URL fragment (`#projects`, or `#jobs/ID` for one job), so that it can be bookmarked, shared and
 * revisited.
 */
import { useSyncExternalStore } from 'react';

export const VIEWS = ['pool', 'projects', 'people', 'jobs', 'nodes', 'policies', 'usage', 'audit'] as const;

export type ViewName = (typeof VIEWS)[number];

/** The views that only administrators can see. */
export const ADMINISTRATORS: readonly ViewName[] = ['people', 'policies', 'audit'];

/** The view that a fragment names, or the pool view if it names none. */
export function viewOf(hash: string): ViewName {
  const [name] = hash.replace(/^#/, '').split('/');
  return VIEWS.find(view => view === name) ?? 'pool';
}

export function jobAddress(id: string): string {
  return `#jobs/${id}`;
}

/** The id of the job that a fragment names; empty if it names none. */
export function jobOf(hash: string): string {
  return /^#jobs\/([\w-]+)$/.exec(hash)?.[1] ?? '';
}

function follow(changed: () => void): () => void {
  window.addEventListener('hashchange', changed);
  return () => window.removeEventListener('hashchange', changed);
}

export function useView(): ViewName {
  return useSyncExternalStore(follow, () => viewOf(location.hash));
}

export function useJobId(): string {
  return useSyncExternalStore(follow, () => jobOf(location.hash));
}
