import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import { PoolModel } from '../../model/pool';
import { PoolPage } from '../page';

beforeEach(() => {
  location.hash = '#jobs';
});

afterEach(() => {
  cleanup();
  location.hash = '';
});

async function page(admin: boolean): Promise<[Scheduler, PoolModel]> {
  const scheduler = new Scheduler();
  scheduler.me = { ...scheduler.me, name: 'root', admin };
  for (const [id, user] of [
    ['a', 'ada'],
    ['b', 'ben'],
    ['c', 'ada']
  ] as const) {
    scheduler.jobs.set(id, aJob(id, { user, state: 'running', mine: false }));
  }
  const model = new PoolModel(scheduler, { gather: 1, figures: 1 }, true);
  render(<PoolPage model={model} />);
  await act(async () => model.start());
  await screen.findByRole('search');
  return [scheduler, model];
}

async function find(user: string): Promise<void> {
  fireEvent.change(screen.getByLabelText('User'), { target: { value: user } });
  fireEvent.click(screen.getByText('Find'));
  await waitFor(() => expect(screen.queryByText('job-b')).toBeNull());
}

it('finds the jobs of a user in the service, and cancels them together', async () => {
  const [scheduler, model] = await page(true);
  expect(screen.getByText('job-b')).toBeTruthy();
  await find('ada');
  expect(scheduler.asked).toContain('GET jobs?user=ada&limit=200');
  fireEvent.click(await screen.findByText('Cancel 2 jobs…'));
  await screen.findByText('Cancel these 2 jobs?');
  fireEvent.click(screen.getByText('Cancel the jobs'));
  await waitFor(() => expect(['a', 'b', 'c'].map(id => scheduler.jobs.get(id)!.state)).toEqual(CANCELLED));
  await waitFor(() => expect(screen.queryByText('Cancel 2 jobs…')).toBeNull());
  model.dispose();
});

const CANCELLED = ['cancelled', 'running', 'cancelled'];

it('offers to cancel nothing to those who may not', async () => {
  const [, model] = await page(false);
  await find('ada');
  await screen.findByText('job-a');
  expect(screen.queryByText('Cancel 2 jobs…')).toBeNull();
  model.dispose();
});
