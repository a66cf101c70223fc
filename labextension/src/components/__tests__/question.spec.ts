import { expect, it } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import type { JobView } from '../../model/api';
import { Client } from '../../model/client';
import { plain } from '../../trans';
import { questionBefore } from '../question';

it.each([
  [{ state: 'running' }, true],
  [{ state: 'starting' }, true],
  [{ state: 'running', checkpointed: 1200 }, false],
  [{ state: 'queued' }, false]
] as [Partial<JobView>, boolean][])('asks before the pause of a job that loses its work: %o', async (change, asks) => {
  const scheduler = new Scheduler();
  scheduler.jobs.set('j-1', aJob('j-1', change));
  // What the page knows is older.
  const shown = aJob('j-1', { ...change, checkpointed: null });
  const question = await questionBefore(new Client(scheduler), shown, 'pause', plain);
  expect(question?.yes).toBe(asks ? 'Pause the job' : undefined);
});
