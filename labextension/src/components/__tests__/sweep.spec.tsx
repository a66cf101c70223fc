/** The table of a sweep whose kernel no longer updates it. */
import { act, cleanup, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import { PoolModel } from '../../model/pool';
import { SweepTable, type Sweep } from '../sweep';

// jsdom has no layout: treat everything as visible.
beforeEach(() => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  vi.spyOn(HTMLElement.prototype, 'offsetParent', 'get').mockReturnValue(document.body);
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

const SWEEP = { name: 'try', jobs: ['a-0', 'a-1'], planned: 2, ended: 0, metric: 'loss', sign: 1 };
const trial = (n: number) => aJob(`a-${n}`, { name: `try-${n}`, state: 'running', started: 1, parameters: { lr: n } });

const rows = () => [...document.querySelectorAll('tbody tr')].map(row => row.textContent);

it.each<[string, Partial<Sweep>]>([
  ['an array', { array: 'a' }],
  ['a search, with trials that its driver has submitted since', { driver: 'd', jobs: ['a-0'] }]
])('takes the place of the table of its kernel, and gives it back: %s', async (_, change) => {
  const scheduler = new Scheduler();
  [0, 1].forEach(n => scheduler.jobs.set(`a-${n}`, { ...trial(n), ...('array' in change ? { array: 'a' } : {}) }));
  scheduler.jobs.set('d', aJob('d', { state: 'running', started: 1 }));
  scheduler.reports.set('d', [{ job: 'a-0' }, { job: 'a-1' }]);
  scheduler.reports.set('a-0', [{ loss: 0.5 }]).set('a-1', [{ loss: 0.25 }]);
  const model = new PoolModel(scheduler, { gather: 1 });
  const onLive = vi.fn();
  const table = (ended: number) => (
    <SweepTable sweep={{ ...SWEEP, ...change, ended }} model={model} actions={{}} onLive={onLive} />
  );
  const { rerender } = render(table(0));
  await act(async () => model.start());
  expect(screen.queryByRole('table')).toBeNull();
  await act(() => vi.advanceTimersByTimeAsync(8000));
  expect(onLive).toHaveBeenLastCalledWith(true);
  await screen.findByText('try: 0 of 2 done · best loss 0.25');
  expect(rows()).toEqual(['try-00running0.5', 'try-11running0.25']);
  expect(document.querySelector('[data-best=true]')!.textContent).toContain('try-1');
  act(() => scheduler.set({ ...scheduler.jobs.get('a-0')!, state: 'succeeded', ended: 2 }));
  await screen.findByText('try: 1 of 2 done · best loss 0.5'); // as the kernel says: the best that has succeeded
  rerender(table(2));
  expect(onLive).toHaveBeenLastCalledWith(false);
  expect(screen.queryByRole('table')).toBeNull();
  model.dispose();
});
