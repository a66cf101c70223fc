/** Jobs that were submitted together, in the panel. */
import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import type { JobView } from '../../model/api';
import { cancelAll } from '../../model/cancelling';
import type { JobGroup } from '../../model/groups';
import { PoolModel } from '../../model/pool';
import { Panel } from '../panel';

// jsdom has no layout: treat everything as visible.
beforeEach(() => {
  vi.spyOn(HTMLElement.prototype, 'offsetParent', 'get').mockReturnValue(document.body);
});
afterEach(cleanup);

const member = (index: number, change: Partial<JobView> = {}) =>
  aJob(`a-${index}`, { name: `arr-${index}`, array: 'a', index, array_size: 12, ...change });
const names = () => [...document.querySelectorAll('.runai-Job .runai-Name')].map(name => name.textContent);

let model: PoolModel;
afterEach(() => model.dispose());

async function panel(scheduler: Scheduler, jobs: JobView[]): Promise<{ cancelled: JobGroup[] }> {
  jobs.forEach(job => scheduler.jobs.set(job.id, job));
  model = new PoolModel(scheduler, { gather: 1 });
  const cancelled: JobGroup[] = [];
  const actions = {
    act: () => Promise.resolve(),
    cancelAll: async (group: JobGroup) => {
      cancelled.push(group);
      await cancelAll(model, group.jobs);
    }
  };
  render(<Panel model={model} actions={actions} server={null} onNewJob={() => undefined} filterBox={query => query} />);
  await act(async () => model.start());
  return { cancelled };
}

const TWELVE = [...Array(12).keys()].map(index =>
  member(
    index,
    index < 3 ? { state: 'succeeded', started: 1, ended: 9 } : index === 10 ? { state: 'running', started: 2 } : {}
  )
);

it('is one row with the overall status, which unfolds by keyboard', async () => {
  const scheduler = new Scheduler();
  scheduler.reports.set('a-0', [{ step: 1, loss: 0.5 }]).set('a-1', [{ loss: 0.25 }]);
  scheduler.reports.set('a-10', [{ step: 4, total: 8, loss: 0.125 }]);
  await panel(scheduler, [...TWELVE, aJob('alone', { submitted: 1 })]);
  await screen.findByText('3 of 12 done · 1 running · best loss 0.25');
  expect(names()).toEqual(['arr', 'job-alone']);
  const head = document.querySelector<HTMLElement>('[data-group=a] .runai-Job-head')!;
  expect(head.textContent).toContain('arr12 jobs3 of 12 done · 1 running · best loss 0.25');
  head.focus();
  fireEvent.keyDown(head, { key: 'ArrowRight' });
  expect(names().slice(0, 4)).toEqual(['arr', 'arr-10', 'arr-3', 'arr-4']);
  expect(names().slice(-5)).toEqual(['arr-11', 'arr-0', 'arr-1', 'arr-2', 'job-alone']);
  expect(document.querySelector('[data-job=a-10]')!.textContent).toContain('4 / 8');
  fireEvent.keyDown(head, { key: 'ArrowDown' });
  expect(document.activeElement!.parentElement!.dataset.job).toBe('a-10');
  fireEvent.keyDown(document.activeElement!, { key: 'ArrowUp' });
  fireEvent.keyDown(head, { key: 'ArrowLeft' });
  expect(names()).toEqual(['arr', 'job-alone']);
  expect(scheduler.asked.filter(path => path.startsWith('GET reports'))).toHaveLength(1);
});

it('loads the jobs missing from the first page, and cancels all of them', async () => {
  const scheduler = new Scheduler();
  const some = TWELVE.slice(8);
  const { cancelled } = await panel(scheduler, some);
  TWELVE.forEach(job => scheduler.jobs.set(job.id, job));
  await screen.findByText(/of 12 done/);
  // Mount the page again, as when the tab is switched.
  fireEvent.click(screen.getByRole('tab', { name: /Team/ }));
  await screen.findByText(/3 of 12 done · 1 running/);
  fireEvent.click(screen.getByLabelText('Cancel all of arr'));
  await waitFor(() => expect(cancelled).toHaveLength(1));
  await screen.findByText(/12 of 12 done · 9 cancelled/);
  const stops = scheduler.asked.filter(path => path.endsWith('/cancel'));
  expect(stops).toHaveLength(9);
  expect(stops.at(-1)).toBe('POST jobs/a-10/cancel'); // waiting jobs first: they would start on freed GPUs
});
