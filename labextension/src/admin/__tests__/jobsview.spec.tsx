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

it('finds the jobs of a user through the service and cancels them together', async () => {
  const [scheduler, model] = await page(true);
  expect(await screen.findByText('job-b')).toBeTruthy();
  await find('ada');
  expect(scheduler.asked).toContain('GET jobs?user=ada&limit=100&sort=submitted&order=desc');
  fireEvent.change(screen.getByLabelText('Name or id'), { target: { value: 'job-c' } });
  fireEvent.click(screen.getByText('Find'));
  await screen.findByText('Cancel 1 job…');
  expect(scheduler.asked).toContain('GET jobs?find=job-c&user=ada&limit=100&sort=submitted&order=desc');
  fireEvent.change(screen.getByLabelText('Name or id'), { target: { value: '' } });
  fireEvent.click(screen.getByText('Find'));
  fireEvent.click(await screen.findByText('Cancel 2 jobs…'));
  await screen.findByText('Cancel these 2 jobs?');
  fireEvent.click(screen.getByText('Cancel the jobs'));
  await waitFor(() => expect(['a', 'b', 'c'].map(id => scheduler.jobs.get(id)!.state)).toEqual(CANCELLED));
  await waitFor(() => expect(screen.queryByText('Cancel 2 jobs…')).toBeNull());
  model.dispose();
});

const CANCELLED = ['cancelled', 'running', 'cancelled'];

it('does not offer to cancel jobs without the permission', async () => {
  const [, model] = await page(false);
  await find('ada');
  await screen.findByText('job-a');
  expect(screen.queryByText('Cancel 2 jobs…')).toBeNull();
  model.dispose();
});

it('reads the jobs in the order of the column whose heading is chosen, and says which it is', async () => {
  const [scheduler, model] = await page(true);
  const heading = (name: string) => screen.getByRole('columnheader', { name });
  await screen.findByText('job-b');
  expect(heading('Submitted').getAttribute('aria-sort')).toBe('descending');
  fireEvent.click(screen.getByRole('button', { name: 'GPUs' }));
  await waitFor(() => expect(scheduler.asked).toContain('GET jobs?limit=100&sort=gpus&order=desc'));
  expect(heading('GPUs').getAttribute('aria-sort')).toBe('descending');
  expect(heading('Submitted').getAttribute('aria-sort')).toBe('none');
  fireEvent.click(screen.getByRole('button', { name: 'GPUs' }));
  await waitFor(() => expect(scheduler.asked).toContain('GET jobs?limit=100&sort=gpus&order=asc'));
  expect(heading('GPUs').getAttribute('aria-sort')).toBe('ascending');
  fireEvent.click(screen.getByRole('button', { name: 'User' }));
  await waitFor(() => expect(scheduler.asked).toContain('GET jobs?limit=100&sort=user&order=asc'));
  model.dispose();
});

it('shows a job that comes while the page is open', async () => {
  const [scheduler, model] = await page(true);
  await screen.findByText('job-b');
  act(() => scheduler.set(aJob('new', { user: 'ben', state: 'queued', mine: false })));
  await screen.findByText('job-new');
  model.dispose();
});

it('changes the priority of one job, or of all jobs that were found', async () => {
  const [scheduler, model] = await page(true);
  const set = (value: string) => {
    fireEvent.change(screen.getByLabelText('Priority'), { target: { value } });
    fireEvent.click(screen.getByText('Set'));
  };
  fireEvent.click(await screen.findByRole('button', { name: 'Priority of job-b: 50' }));
  set('1001');
  await screen.findByText('Enter a whole number from 0 to 1000.');
  set('70');
  await screen.findByRole('button', { name: 'Priority of job-b: 70' });
  await find('ada');
  fireEvent.click(await screen.findByText('Priority of 2 jobs…'));
  set('20');
  await waitFor(() => expect(['a', 'b', 'c'].map(id => scheduler.jobs.get(id)!.priority)).toEqual([20, 70, 20]));
  model.dispose();
});

it('finds and unfolds the job that the address names', async () => {
  const [scheduler, model] = await page(true);
  scheduler.jobs.set('j-0123456789ab', aJob('j-0123456789ab', { name: 'train' }));
  location.hash = '#jobs/j-0123456789ab';
  const row = await screen.findByRole('button', { name: 'queued train' });
  expect(row.getAttribute('aria-expanded')).toBe('true');
  expect(screen.queryByText('job-a')).toBeNull();
  expect(screen.getByLabelText<HTMLInputElement>('Name or id').value).toBe('j-0123456789ab');
  model.dispose();
});
