import { describe, expect, it } from 'vitest';
import { aJob } from '../../__tests__/scheduler';
import type { JobView } from '../api';
import { bestOf, byNumber, groupsOf, stateOf } from '../groups';

const member = (index: number, change: Partial<JobView> = {}) =>
  aJob(`a-${index}`, { name: `arr-${index}`, array: 'a', index, array_size: 12, ...change });
const trial = (number: number, submitted: number) =>
  aJob(`t-${submitted}`, { name: `tune-${number}`, parameters: { lr: 0.1 }, submitted });
const names = (jobs: readonly JobView[]) => jobs.map(job => job.name);

describe('the groups of jobs', () => {
  it('are arrays with their full size; a single job is in no group', () => {
    const groups = groupsOf([
      member(10),
      aJob('alone'),
      member(2),
      aJob('one', { array: 'b', index: 0, array_size: 1 })
    ]);
    expect([...groups.keys()]).toEqual(['a-10', 'a-2']);
    expect(groups.get('a-2')).toMatchObject({ key: 'a', name: 'arr', size: 12 });
    expect(groups.get('a-2')).toBe(groups.get('a-10'));
  });

  it('are searches; a later search with the same name is another group', () => {
    const groups = groupsOf([trial(1, 6), trial(0, 5), trial(1, 2), trial(0, 1), trial(2, 3)]);
    const found = [...new Set(groups.values())].map(group => group.jobs.map(job => job.submitted));
    expect(found.sort()).toEqual([
      [1, 2, 3],
      [5, 6]
    ]);
    expect(groupsOf([aJob('n', { name: 'run-1' }), aJob('m', { name: 'run-2' })]).size).toBe(0);
  });

  it('are sorted with running jobs first, then by index', () => {
    const jobs = [member(10), member(2), member(1, { state: 'succeeded' }), member(11, { state: 'running' })];
    expect(names(byNumber(jobs))).toEqual(['arr-11', 'arr-2', 'arr-10', 'arr-1']);
    expect(stateOf(jobs)).toBe('running');
    expect(stateOf([member(1, { state: 'succeeded' }), member(2, { state: 'failed' })])).toBe('failed');
  });
});

describe('the best job of a group', () => {
  const done = { state: 'succeeded' as const };
  const jobs = [member(1, done), member(2, done), member(3, { state: 'running' })];
  const latest = (...points: Record<string, number>[]) => new Map(points.map((point, at) => [`a-${at + 1}`, point]));

  it('has the lowest loss or the highest accuracy of the succeeded jobs', () => {
    const losses = latest({ step: 9, loss: 0.5 }, { loss: 0.25 }, { loss: 0.1 });
    expect(bestOf(jobs, losses)).toMatchObject({ metric: 'loss', value: 0.25, job: { id: 'a-2' } });
    expect(bestOf([jobs[2]!], losses)).toMatchObject({ value: 0.1 });
    expect(bestOf(jobs, latest({ accuracy: 0.8 }, { accuracy: 0.7 }))).toMatchObject({ value: 0.8 });
  });

  it('prefers validation metrics, and ignores metrics without a known direction', () => {
    const both = latest({ loss: 0.1, val_loss: 0.9 }, { loss: 0.2, val_loss: 0.8 });
    expect(bestOf(jobs, both)).toMatchObject({ metric: 'val_loss', value: 0.8 });
    expect(bestOf(jobs, latest({ throughput: 7 }))).toBeNull();
    expect(bestOf(jobs, new Map())).toBeNull();
  });
});
