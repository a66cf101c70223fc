/** What is said when a job of the user's has ended: what they may not have seen, once, and no more than that. */
import type { Trans } from '../trans';
import type { JobView } from './api';
import { duration, news } from './format';
import { isFinal } from './state';

/** Whoever sent a job that took no longer still looks at it. */
const SHORT = 30;

export interface Notice {
  readonly kind: 'success' | 'warning' | 'error';
  readonly text: string;
  /** The job whose log tells more. */
  readonly job: JobView;
  /** It took so long that whoever sent it may be away: it stays until they have read it. */
  readonly stays: boolean;
}

/**
 * The notice of a job that has just ended; null where there is nothing to say. Of many that were sent as one there is one
 * notice, with the last of them; a trial of a search says only that it has failed.
 */
export function noticeOf(job: JobView, jobs: Iterable<JobView>, trans: Trans): Notice | null {
  return job.array === null ? ofOne(job, trans) : ofArray(job, job.array, jobs, trans);
}

function ofOne(job: JobView, trans: Trans): Notice | null {
  const why = news(job, trans);
  const took = taken([job]);
  if (job.state === 'failed') {
    return {
      kind: 'error',
      job,
      stays: took >= SHORT,
      text: why ? trans.__('%1 failed: %2', job.name, why) : trans.__('%1 failed.', job.name)
    };
  }
  if (Object.keys(job.parameters).length > 0) {
    return null;
  }
  if (job.state === 'cancelled') {
    // By its owner: they know.
    if (!why) {
      return null;
    }
    const text = why.startsWith('by ')
      ? trans.__('%1 was cancelled %2', job.name, why)
      : trans.__('%1 was cancelled: %2', job.name, why);
    return { kind: 'warning', job, stays: false, text };
  }
  return took < SHORT
    ? null
    : {
        kind: 'success',
        job,
        stays: false,
        text: trans.__('%1 succeeded after %2.', job.name, duration(took, trans))
      };
}

function ofArray(job: JobView, array: string, jobs: Iterable<JobView>, trans: Trans): Notice | null {
  const all = [...jobs].filter(one => one.array === array);
  const took = taken(all);
  const well = all.filter(one => one.state === 'succeeded').length;
  const failed = all.find(one => one.state === 'failed');
  if (!all.every(one => isFinal(one.state)) || (!failed && took < SHORT)) {
    return null;
  }
  const name = job.name.replace(/-\d+$/, '');
  const text = trans.__('%1 ended after %2: %3 of %4 jobs succeeded.', name, duration(took, trans), well, all.length);
  const kind = failed ? 'error' : well === all.length ? 'success' : 'warning';
  return { kind, job: failed ?? job, stays: !!failed && took >= SHORT, text };
}

/** From the first submission to the last end. */
function taken(jobs: readonly JobView[]): number {
  const ended = Math.max(...jobs.map(job => job.ended ?? job.submitted));
  return ended - Math.min(...jobs.map(job => job.submitted));
}
