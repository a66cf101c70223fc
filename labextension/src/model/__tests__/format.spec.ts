import { describe, expect, it } from 'vitest';
import { aJob } from '../../__tests__/scheduler';
import { plain } from '../../trans';
import type { AttemptView, JobView } from '../api';
import { clock, duration, places, ranges, sentence, shape } from '../format';

/** The visible text: without non-breaking spaces and word joiners. */
const read = (text: string) => text.replace(/\u2060/g, '').replace(/[\u202f\u00a0]/g, ' ');

const NOW = new Date(2026, 0, 14, 15, 0).getTime() / 1000;

function attempt(change: Partial<AttemptView> = {}): AttemptView {
  return {
    number: 1,
    created: NOW - 100,
    started: NOW - 2280,
    ended: null,
    workers: [{ rank: 0, node: 'n3', gpus: [0, 1, 2, 3], share: 1 }],
    stopping: null,
    exit_codes: [],
    reason: '',
    ending: null,
    ...change
  };
}

describe('durations', () => {
  it.each([
    [-1, '<1 s'],
    [41.9, '41 s'],
    [60, '1 min'],
    [2280, '38 min'],
    [3600, '1 h'],
    [7800, '2 h 10 min'],
    [86_400 * 3 + 4 * 3600, '3 d 4 h'],
    [86_400, '1 d']
  ])('%d seconds are %s', (seconds, said) => {
    expect(read(duration(seconds, plain))).toBe(said);
  });
});

describe('times', () => {
  const at = (time: number) => read(clock(time, NOW));

  it('show no date for today', () => {
    expect(at(NOW - 3600)).toMatch(/^0?2:00 PM$|^14:00$/);
  });
  it('show a weekday within the week', () => {
    expect(at(NOW - 2 * 86_400)).toContain('Mon');
  });
  it('show the day for another month', () => {
    expect(at(NOW - 40 * 86_400)).toContain('Dec');
  });
});

describe('amounts', () => {
  it.each<[Partial<JobView>, string]>([
    [{ gpus: 1 }, '1 GPU'],
    [{ gpus: 0.25 }, '0.25 GPUs'],
    [{ gpus: 0 }, 'no GPU'],
    [{ gpus: 8, workers: 2 }, '2 × 8 GPUs']
  ])('%j is %s', (change, said) => {
    expect(shape(aJob('a', change), plain)).toBe(said);
  });

  it('show neighbouring GPUs as a range', () => {
    expect(read(ranges([3, 1, 0, 2, 6, 5]))).toBe('0–3, 5, 6');
  });
});

describe('the placement of a job', () => {
  it('groups its workers by node', () => {
    const workers = [
      { rank: 0, node: 'n3', gpus: [0, 1], share: 1 },
      { rank: 1, node: 'n4', gpus: [7], share: 1 },
      { rank: 2, node: 'n3', gpus: [2], share: 1 }
    ];
    expect(read(places(aJob('a', { attempts: [attempt({ workers })] }), plain))).toBe('n3 GPU 0–2, n4 GPU 7');
  });
});

describe('the status line of a job', () => {
  it.each<[string, Partial<JobView>, RegExp]>([
    ['running', { state: 'running', attempts: [attempt()] }, /^running 38 min · n3 GPU 0–3$/],
    [
      'waiting',
      {
        state: 'queued',
        position: 2,
        reason: 'Needs 8 GPUs on one node.',
        estimated_start: NOW + 60
      },
      /^number 2 in line · starts about .*:01.* · Needs 8 GPUs on one node\.$/
    ],
    [
      'waiting, with a range',
      { state: 'queued', position: 2, estimated_start: NOW + 60, earliest_start: NOW, latest_start: NOW + 600 },
      /^number 2 in line · starts about .*:01.* \(.*:00.* to .*:10.*\) · waiting/
    ],
    [
      'overdue',
      { state: 'queued', position: 1, reason: 'Waits.', estimated_start: NOW - 60 },
      /^next in line · about to start · Waits\.$/
    ],
    [
      'paused for another',
      {
        state: 'queued',
        position: 1,
        reason: 'Needs 1 GPU.',
        notice: 'Paused for about 20 min for a short job of ben.',
        estimated_start: NOW + 60
      },
      /^Paused for about 20 min for a short job of ben; resumes at about .*:01.*$/
    ],
    [
      'paused for another, overdue',
      { state: 'queued', notice: 'Paused for about 20 min for a short job of ben.', estimated_start: NOW - 60 },
      /^Paused for about 20 min for a short job of ben; resumes at any moment$/
    ],
    [
      'paused for another job for an unknown time',
      { state: 'queued', notice: 'Paused for a job of ben. The end of the pause is unknown.' },
      /^Paused for a job of ben\. The end of the pause is unknown\.$/
    ],
    ['first in line', { state: 'queued', position: 1, submitted: NOW - 5 }, /^next in line · waiting 5 s$/],
    [
      'waiting again',
      { state: 'queued', submitted: NOW - 3600, attempts: [attempt({ ended: NOW - 5 })] },
      /^waiting 5 s$/
    ],
    [
      'succeeded',
      {
        state: 'succeeded',
        ended: NOW,
        attempts: [attempt({ started: NOW - 41, ended: NOW })],
        reason: 'Exited.'
      },
      /^succeeded .*:00.* after 41 s$/
    ],
    [
      'succeeded with its second attempt',
      {
        state: 'succeeded',
        ended: NOW,
        attempts: [attempt({ started: NOW - 200, ended: NOW - 136 }), attempt({ started: NOW - 38, ended: NOW })]
      },
      /^succeeded .*:00.* after 1 min$/
    ],
    [
      'failed',
      {
        state: 'failed',
        ended: NOW,
        attempts: [attempt({ ended: NOW })],
        reason: 'Rank 0 exited with status 1.'
      },
      /^failed .* after 38 min · Rank 0 exited with status 1\.$/
    ],
    ['paused', { state: 'paused', reason: 'Paused; resume it to queue it again.' }, /^paused · resume it/],
    ['cancelled', { state: 'cancelled', ended: NOW, reason: 'Cancelled.' }, /^cancelled [^·]*:00[^·]*$/],
    ['cancelled before it started', { state: 'cancelled', ended: NOW }, /^cancelled .*:00/]
  ])('that is %s', (_, change, said) => {
    expect(read(sentence(aJob('a', change), NOW, plain))).toMatch(said);
  });
});
