/** Notices of the user's finished jobs: only news that they may have missed, and only once. */
import type { Trans } from '../trans';
import type { JobView } from './api';
import { duration, news } from './format';
import { isFinal } from './state';

/** After a job this short, the user is still looking at it, in seconds. */
const SHORT = 30;

/** The successes that the user wants to be told of; failures and the cancellations of others are always told. */
export interface Successes {
  readonly told: boolean;
  /** The shortest job, in seconds. */
  readonly from: number;
}

export const SUCCESSES: Successes = { told: true, from: SHORT };

export interface Notice {
  readonly kind: 'success' | 'warning' | 'error';
  readonly text: string;
  /** The job whose log has the details. */
  readonly job: JobView;
  /** The job took so long that the user may be away: the notice stays until it is closed. */
  readonly stays: boolean;
}

/**
 * The notice of a job that has just ended, or null. Jobs that were submitted together get one notice, when the last of
 * them ends; a trial of a search is announced only if it fails.
 */
export function noticeOf(
  job: JobView,
  jobs: Iterable<JobView>,
  trans: Trans,
  successes: Successes = SUCCESSES
): Notice | null {
  const notice = job.array === null ? ofOne(job, trans, successes) : ofArray(job, job.array, jobs, trans, successes);
  return notice?.kind === 'success' && !successes.told ? null : notice;
}

function ofOne(job: JobView, trans: Trans, successes: Successes): Notice | null {
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
    // Its owner cancelled it.
    if (!why) {
      return null;
    }
    const text = why.startsWith('by ')
      ? trans.__('%1 was cancelled %2', job.name, why)
      : trans.__('%1 was cancelled: %2', job.name, why);
    return { kind: 'warning', job, stays: false, text };
  }
  return took < successes.from
    ? null
    : {
        kind: 'success',
        job,
        stays: false,
        text: trans.__('%1 succeeded after %2.', job.name, duration(took, trans))
      };
}

function ofArray(
  job: JobView,
  array: string,
  jobs: Iterable<JobView>,
  trans: Trans,
  successes: Successes
): Notice | null {
  const all = [...jobs].filter(one => one.array === array);
  const took = taken(all);
  const well = all.filter(one => one.state === 'succeeded').length;
  const failed = all.find(one => one.state === 'failed');
  if (!all.every(one => isFinal(one.state)) || (!failed && took < successes.from)) {
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
