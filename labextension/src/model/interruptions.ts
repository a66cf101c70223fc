/** What the owners of running jobs are told before and while others stop these jobs, and when they run again. */
import type { Trans } from '../trans';
import type { JobView } from './api';
import { clock } from './format';

/** `train: Will be paused at 09:00 for …`, or null for a job that is not expected to be paused. */
export function warningWords(job: JobView, trans: Trans): string | null {
  const warning = job.state === 'running' ? /\b(?:Will|May) be paused at .*/.exec(job.notice) : null;
  return warning && trans.__('%1: %2', job.name, warning[0]);
}

/** `train is being paused: Project speech reclaims GPUs for asr-7. …`, or null for a job that is not paused. */
export function pauseWords(job: JobView, now: number, trans: Trans): string | null {
  const by = /^(?:Pausing by (.+)|Paused by (.+); .*)\.$/.exec(job.reason);
  if (by && job.state === 'stopping') {
    return trans.__('%1 is being paused by %2.', job.name, by[1]);
  }
  if (by && job.state === 'paused') {
    return trans.__('%1 was paused by %2. It waits until it is resumed.', job.name, by[2]);
  }
  const attempt = job.attempts[job.attempts.length - 1];
  if (attempt?.ending === 'stopped' && job.state === 'queued') {
    return `${trans.__('%1 is queued again.', job.name)} ${resumes(job.estimated_start, now, trans)}`;
  }
  if (attempt?.ending !== 'preempted' || !(job.state === 'stopping' || job.state === 'queued')) {
    return null;
  }
  const told = job.notice
    ? trans.__('%1: %2', job.name, job.notice)
    : job.state === 'stopping'
      ? trans.__('%1 is being paused: %2', job.name, attempt.reason)
      : trans.__('%1 was paused: %2', job.name, attempt.reason);
  return `${told} ${resumes(job.estimated_start, now, trans)}`;
}

function resumes(start: number | null, now: number, trans: Trans): string {
  if (start === null) {
    return trans.__('It resumes when GPUs are free again.');
  }
  return start <= now ? trans.__('It resumes at any moment.') : trans.__('It resumes at about %1.', clock(start, now));
}

/** Of a job that was paused. */
export function resumedWords(job: JobView, trans: Trans): string {
  return trans.__('%1 is running again.', job.name);
}
