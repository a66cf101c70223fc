/** Cancels several jobs. */
import type { JobView } from './api';
import { isFinal, type IPoolModel } from './state';
import { PoolError } from './transport';

const CONFLICT = 409;

/**
 * Cancels one job after the other and ignores jobs that have ended meanwhile. Waiting jobs go first, or they would
 * start on the GPUs of the cancelled ones.
 */
export async function cancelAll(model: IPoolModel, jobs: readonly JobView[]): Promise<void> {
  const waits = (job: JobView) => Number(job.state === 'queued' || job.state === 'paused');
  const unfinished = jobs.filter(job => !isFinal(job.state));
  for (const job of unfinished.sort((a, b) => waits(b) - waits(a))) {
    try {
      await model.act(job.id, 'cancel');
    } catch (error) {
      if (!(error instanceof PoolError && error.status === CONFLICT)) {
        throw error;
      }
    }
  }
}
