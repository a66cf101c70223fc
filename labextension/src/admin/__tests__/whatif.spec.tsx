import { cleanup, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import { afterEach, expect, it } from 'vitest';
import { Scheduler } from '../../__tests__/scheduler';
import type { OutcomeView, SideView } from '../../model/api';
import { Client } from '../../model/client';
import { WhatIf } from '../whatif';

afterEach(cleanup);

function side(gpus: number, wait: number): SideView {
  const outcome: OutcomeView = {
    jobs: 12,
    mean_wait: wait,
    median_wait: wait,
    p95_wait: 2 * wait,
    mean_completion: wait + 3600,
    stops: 1
  };
  return { gpus, use: 0.5, total: outcome, by_project: { vision: outcome }, never_started: 0 };
}

async function opened(...further: string[]): Promise<Scheduler> {
  const scheduler = new Scheduler();
  const [vision] = scheduler.projects;
  scheduler.projects = [vision!, ...further.map(name => ({ ...vision!, name }))];
  scheduler.whatIf = {
    since: 0,
    until: 1,
    unfinished: 2,
    never_ran: 0,
    gone: 0,
    recorded: side(8, 600),
    unchanged: side(8, 660),
    changed: side(16, 60)
  };
  render(<WhatIf client={new Client(scheduler)} />);
  await screen.findByRole('option', { name: 'vision' });
  return scheduler;
}

function fill(label: string, value: string): void {
  fireEvent.change(screen.getByLabelText(label), { target: { value } });
}

it('shows the recorded jobs with and without the change', async () => {
  const scheduler = await opened();
  fill('More GPUs', '8');
  fill('Guarantee of', 'vision');
  fill('Guaranteed GPUs of vision', '4');
  fireEvent.click(screen.getByText('Simulate'));
  expect(screen.getByRole('progressbar', { name: 'Simulating' })).toBeTruthy();
  const table = await screen.findByRole('table', { name: 'All projects' });
  expect(scheduler.simulated[0]).toMatchObject({ gpus: 8, guaranteed: { vision: 4 } });
  const cells = within(table)
    .getByRole('row', { name: /^Mean wait/ })
    .querySelectorAll('td');
  expect([...cells].map(cell => cell.textContent)).toEqual(['10\u00a0min', '11\u00a0min', '1\u00a0min']);
  const bars = screen.getByRole('table', { name: 'Mean wait by project' }).querySelectorAll('rect');
  expect([...bars].map(bar => bar.getAttribute('width'))).toEqual(['100%', `${(100 * 60) / 660}%`]);
  expect(screen.getByText(/2 jobs had not ended/)).toBeTruthy();
  await waitFor(() => expect(screen.queryByRole('progressbar')).toBeNull());
});

it('takes a guarantee for each of several projects', async () => {
  const scheduler = await opened('speech', 'text');
  const choices = () => screen.getAllByLabelText<HTMLSelectElement>('Guarantee of');
  fill('Guarantee of', 'vision');
  fireEvent.change(choices()[1]!, { target: { value: 'speech' } });
  expect([...choices()[1]!.options].map(option => option.value)).toEqual(['', 'speech', 'text']);
  fireEvent.change(choices()[2]!, { target: { value: 'text' } });
  expect(choices()).toHaveLength(3);
  fill('Guaranteed GPUs of vision', '4');
  fill('Guaranteed GPUs of speech', '0');
  fireEvent.click(screen.getByText('Simulate'));
  expect(screen.getByRole('alert').textContent).toBe('Enter the GPUs that text would be guaranteed, such as 8.');
  fireEvent.change(choices()[2]!, { target: { value: '' } });
  expect(choices().map(choice => choice.value)).toEqual(['vision', 'speech', '']);
  fireEvent.click(screen.getByText('Simulate'));
  await screen.findByRole('table', { name: 'All projects' });
  expect(scheduler.simulated).toMatchObject([{ gpus: 0, guaranteed: { vision: 4, speech: 0 } }]);
});

it.each([
  [{ 'More GPUs': '1.5' }, 'Enter a whole number of GPUs to add, such as 8.'],
  [{ 'More GPUs': '' }, 'Enter a number of GPUs to add, or choose a project.'],
  [{ 'Guarantee of': 'vision' }, 'Enter the GPUs that vision would be guaranteed, such as 8.']
])('asks for what is missing in %j', async (fields, sentence) => {
  const scheduler = await opened();
  Object.entries(fields).forEach(([label, value]) => fill(label, value));
  fireEvent.click(screen.getByText('Simulate'));
  expect(screen.getByRole('alert').textContent).toBe(sentence);
  expect(scheduler.simulated).toHaveLength(0);
});

it('shows the service’s refusal', async () => {
  const scheduler = await opened();
  scheduler.trouble = [409, { detail: 'Another what-if simulation is running.', status: 409 }];
  fill('More GPUs', '8');
  fireEvent.click(screen.getByText('Simulate'));
  expect((await screen.findByRole('alert')).textContent).toBe('Another what-if simulation is running.');
});
