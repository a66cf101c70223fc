/** The jobs that a page reads before it follows their changes. */
import type { JobView } from './api';
import type { Client } from './client';
import { UNFINISHED } from './state';
import { PAGE } from './timing';

const HELD = UNFINISHED.filter(state => state !== 'queued');

export interface FirstJobs {
  readonly jobs: readonly JobView[];
  readonly hasAll: boolean;
  readonly hasAllMine: boolean;
  readonly hasAllUnfinished: boolean;
}

/**
 * Reads the newest jobs and the newest unfinished ones. Where there are more, it also reads the newest of the caller's
 * own and those of them that run or are paused, since many jobs of others may be newer; not for a page of `everything`.
 */
export async function firstJobs(client: Client, everything: boolean): Promise<FirstJobs> {
  const [recent, unfinished] = await Promise.all([
    client.jobs({ limit: PAGE }),
    client.jobs({ states: UNFINISHED, limit: PAGE })
  ]);
  const hasAllUnfinished = unfinished.next === null;
  const hasAll = hasAllUnfinished && recent.next === null;
  const jobs = [...recent.jobs, ...unfinished.jobs];
  if (hasAll || everything) {
    return { jobs, hasAll, hasAllMine: hasAll, hasAllUnfinished };
  }
  const [mine, held] = await Promise.all([
    client.jobs({ mine: true, limit: PAGE }),
    client.jobs({ mine: true, states: HELD, limit: PAGE })
  ]);
  jobs.push(...mine.jobs, ...held.jobs);
  return { jobs, hasAll, hasAllMine: mine.next === null, hasAllUnfinished };
}
