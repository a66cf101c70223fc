/** The jobs that the service has beyond those in the state: those that match a query, and further ones on request. */
import { useCallback, useEffect, useMemo, useRef, useState } from 'react';
import { PAGE } from '../model/timing';
import type { IPoolModel } from '../model/state';
import { usePool } from './hooks';

/** The delay before a search, in milliseconds without typing. */
const RESTING = 300;

export interface Found {
  /** Loads further jobs; null if there are none, or while some are loaded. */
  more: (() => void) | null;
  loading: boolean;
  /** How many pages have been read. */
  pages: number;
}

/** `find`: words that occur in the jobs; `mine`: only the caller's own. What is found goes into the model. */
export function useFound(model: IPoolModel, find: string, mine: boolean): Found {
  const state = usePool(model);
  const hasAll = mine ? state.hasAllMine : state.hasAll;
  const asked = JSON.stringify([find, mine]);
  const latest = useRef(asked);
  /** Where the next page begins: "" at the front, null if there is none. */
  const [read, setRead] = useState<{ asked: string; next: string | null; loading: boolean } | null>(null);
  const [pages, setPages] = useState(0);
  const { next, loading } = read?.asked === asked ? read : { next: hasAll ? null : '', loading: false };

  const load = useCallback(
    async (from: string) => {
      setRead({ asked, next: from, loading: true });
      let next: string | null = from;
      try {
        let known: boolean;
        do {
          const page = await model.client.jobs({ find, mine, limit: PAGE, ...(next ? { after: next } : {}) });
          if (latest.current !== asked) {
            return;
          }
          next = page.next;
          known = page.jobs.every(job => model.state.jobs.has(job.id));
          model.know(page.jobs);
          setPages(count => count + 1);
        } while (known && next !== null);
      } catch {
        // The panel already shows a lost connection; the button tries again.
      }
      setRead(before => (before?.asked === asked ? { asked, next, loading: false } : before));
    },
    [model, asked, find, mine]
  );
  useEffect(() => {
    latest.current = asked;
    if (find && !hasAll) {
      const timer = setTimeout(() => void load(''), RESTING);
      return () => clearTimeout(timer);
    }
    return undefined;
  }, [asked, find, hasAll, load]);
  return useMemo(
    () => ({ more: next === null || loading ? null : () => void load(next), loading, pages }),
    [load, next, loading, pages]
  );
}
