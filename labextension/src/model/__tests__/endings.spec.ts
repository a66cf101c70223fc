import { describe, expect, it } from 'vitest';
import { aJob } from '../../__tests__/scheduler';
import { plain } from '../../trans';
import type { JobView } from '../api';
import { noticeOf } from '../endings';

const said = (job: JobView, ...others: JobView[]) => {
  const notice = noticeOf(job, [job, ...others], plain);
  return notice && `${notice.kind}: ${notice.text.replaceAll('\u00a0', ' ')}`;
};
const LONG = { name: 'train', submitted: 1000, ended: 1125 };

describe('the notice of a finished job', () => {
  it.each<[string, Partial<JobView>, string | null]>([
    ['success after a while', { state: 'succeeded' }, 'success: train succeeded after 2 min.'],
    ['success at once', { state: 'succeeded', ended: 1029 }, null],
    [
      'failure',
      { state: 'failed', reason: 'It ended with exit code 3.', ended: 1001 },
      'error: train failed: It ended with exit code 3.'
    ],
    ['being cancelled by its owner', { state: 'cancelled', reason: 'Cancelled.' }, null],
    [
      'being cancelled by somebody else',
      { state: 'cancelled', reason: 'Cancelled by root.' },
      'warning: train was cancelled by root.'
    ],
    [
      'the failure of what it was to come after',
      {
        state: 'cancelled',
        reason: 'Job prepare has failed, and this job requires it to succeed.'
      },
      'warning: train was cancelled: Job prepare has failed, and this job requires it to succeed.'
    ],
    ['a trial of a search', { state: 'succeeded', parameters: { lr: 1 } }, null],
    ['a failing trial', { state: 'failed', parameters: { lr: 1 } }, 'error: train failed.']
  ])('%s', (_, change, text) => {
    expect(said(aJob('a', { ...LONG, ...change }))).toBe(text);
  });

  it.each<[string, Partial<JobView>, boolean, number, boolean]>([
    ['a success of the shortest length', { state: 'succeeded' }, true, 125, true],
    ['a shorter success', { state: 'succeeded' }, true, 126, false],
    ['a success at once, with no shortest length', { state: 'succeeded', ended: 1000 }, true, 0, true],
    ['a success, where only problems are told', { state: 'succeeded' }, false, 0, false],
    ['a short failure, where only problems are told', { state: 'failed' }, false, 600, true],
    ["somebody else's cancellation", { state: 'cancelled', reason: 'Cancelled by root.' }, false, 600, true],
    ['a success of an array', { state: 'succeeded', array: 'x' }, false, 0, false],
    ['a short success of an array', { state: 'succeeded', array: 'x' }, true, 126, false],
    ['a failure in an array', { state: 'failed', array: 'x' }, false, 600, true]
  ])('is what the user has chosen: %s', (_, change, told, from, expected) => {
    const job = aJob('a', { ...LONG, ...change });
    expect(noticeOf(job, [job], plain, { told, from }) !== null).toBe(expected);
  });

  it('stays if the user may be away', () => {
    const failed = (ended: number) => {
      const job = aJob('a', { ...LONG, state: 'failed', ended });
      return noticeOf(job, [job], plain)!.stays;
    };
    expect([failed(1001), failed(1125)]).toEqual([false, true]);
  });

  it('covers jobs that were submitted together with one sentence, when the last one ends', () => {
    const member = (index: number, change: Partial<JobView>) =>
      aJob(`x-${index}`, { ...LONG, name: `sweep-${index}`, array: 'x', index, ...change });
    const [first, second] = [member(0, { state: 'succeeded' }), member(1, { state: 'running' })];
    expect(said(first, second)).toBeNull();
    const last = member(1, { state: 'failed' });
    expect(said(last, first)).toBe('error: sweep ended after 2 min: 1 of 2 jobs succeeded.');
    expect(noticeOf(first, [last, first], plain)!.job).toBe(last); // its log has the reason
    const well = member(1, { state: 'succeeded' });
    expect(said(well, first)).toBe('success: sweep ended after 2 min: 2 of 2 jobs succeeded.');
  });
});
