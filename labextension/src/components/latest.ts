/** The latest reports of the jobs in a list, read in batches while the list is visible. */
import { useEffect, useRef, useState, type RefObject } from 'react';
import type { JobView } from '../model/api';
import type { Client } from '../model/client';
import type { Point } from '../model/reports';
import { isFinal } from '../model/state';

/** The maximum number of jobs per request. */
const MOST = 100;

/** In milliseconds: jobs that change within this time share a request. */
const SOON = 200;

const AGAIN = 5000;

export type Latest = ReadonlyMap<string, Point>;

/** Polls running jobs every few seconds, and reads finished jobs once. */
export function useLatest(ref: RefObject<HTMLElement>, client: Client, jobs: readonly JobView[]): Latest {
  const [latest, setLatest] = useState<Latest>(new Map());
  const complete = useRef(new Set<string>());
  const key = JSON.stringify(
    jobs.filter(job => job.mine && job.started !== null).map(job => [job.id, isFinal(job.state)])
  );
  useEffect(() => {
    const wanted = JSON.parse(key) as [string, boolean][];
    const abort = new AbortController();
    const read = async () => {
      const asked = wanted.filter(([id]) => !complete.current.has(id));
      if (document.hidden || !ref.current?.offsetParent) {
        return;
      }
      for (let at = 0; at < asked.length && !abort.signal.aborted; at += MOST) {
        const part = asked.slice(at, at + MOST);
        const ids = part.map(([id]) => id);
        const told = await client.latest(ids, abort.signal);
        part.filter(([, over]) => over).forEach(([id]) => complete.current.add(id));
        if (told.length > 0) {
          setLatest(before => new Map([...before, ...told.map(one => [one.job, one.point] as const)]));
        }
      }
    };
    // If the request fails, the old reports stay.
    const look = () => void read().catch(() => undefined);
    const soon = setTimeout(look, SOON);
    const timer = wanted.some(([, over]) => !over) ? setInterval(look, AGAIN) : undefined;
    return () => {
      clearTimeout(soon);
      clearInterval(timer);
      abort.abort();
    };
  }, [ref, client, key]);
  return latest;
}
