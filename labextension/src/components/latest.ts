/** The latest reports of the jobs in a list, read in batches while the list is visible. */
import { useEffect, useRef, useState, type RefObject } from 'react';
import type { JobView } from '../model/api';
import type { Client } from '../model/client';
import type { Point } from '../model/reports';
import { isFinal } from '../model/state';
import { isSeen, watchSeen } from './seen';

/** The maximum number of jobs per request. */
const MOST = 100;

/** In milliseconds: jobs that change within this time share a request. */
const SOON = 200;

/** In milliseconds: the minimum time between two requests for jobs that go on reporting. */
const AGAIN = 2000;

export type Latest = ReadonlyMap<string, Point>;

/** Reads the latest reports of finished jobs once, and of running ones again when the event stream says so. */
export function useLatest(ref: RefObject<HTMLElement>, client: Client, jobs: readonly JobView[]): Latest {
  const [latest, setLatest] = useState<Latest>(new Map());
  const complete = useRef(new Set<string>());
  const key = JSON.stringify(
    jobs.filter(job => job.mine && job.started !== null).map(job => [job.id, isFinal(job.state)])
  );
  useEffect(() => {
    const wanted = new Map(JSON.parse(key) as [string, boolean][]);
    const abort = new AbortController();
    /** Those that may have reported since they were read. */
    const news = new Set([...wanted.keys()].filter(id => !complete.current.has(id)));
    let timer: ReturnType<typeof setTimeout> | undefined;
    let rests = 0;
    const read = async () => {
      const asked = [...news];
      news.clear();
      for (let at = 0; at < asked.length && !abort.signal.aborted; at += MOST) {
        const part = asked.slice(at, at + MOST);
        const told = await client.latest(part, abort.signal).catch((error: Error) => {
          asked.slice(at).forEach(id => news.add(id)); // they are asked for with the next ones
          throw error;
        });
        part.filter(id => wanted.get(id)).forEach(id => complete.current.add(id));
        if (told.length > 0) {
          setLatest(before => new Map([...before, ...told.map(one => [one.job, one.point] as const)]));
        }
      }
    };
    const look = () => {
      timer = undefined;
      if (news.size > 0 && isSeen(ref.current)) {
        rests = Date.now() + AGAIN;
        void read().catch(() => undefined); // the old reports stay
      }
    };
    const soon = () => {
      timer ??= setTimeout(look, Math.max(SOON, rests - Date.now()));
    };
    soon();
    const silences = [...wanted].flatMap(([id, over]) =>
      over
        ? []
        : client.written.listen(id, 'reported', () => {
            news.add(id);
            soon();
          })
    );
    const unwatch = watchSeen(ref.current, soon);
    return () => {
      clearTimeout(timer);
      unwatch();
      silences.forEach(silence => silence());
      abort.abort();
    };
  }, [ref, client, key]);
  return latest;
}
