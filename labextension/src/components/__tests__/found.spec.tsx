/** Lists, counts and searches of more jobs than a page has loaded. */
import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, expect, it } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import { PoolModel } from '../../model/pool';
import type { JobActions } from '../job';
import { Panel } from '../panel';

const ACTIONS = { act: () => Promise.resolve() } as unknown as JobActions;

afterEach(cleanup);

async function panel(waiting: number): Promise<[Scheduler, PoolModel]> {
  const scheduler = new Scheduler();
  for (let n = 0; n < waiting; n++) {
    scheduler.jobs.set(`j${n}`, aJob(`j${n}`, { name: `train-${n}`, submitted: waiting - n }));
  }
  scheduler.me = { ...scheduler.me, jobs: { running: 0, stopping: 0, waiting, paused: 0 } };
  return [scheduler, await shown(scheduler)];
}

async function shown(scheduler: Scheduler): Promise<PoolModel> {
  const model = new PoolModel(scheduler, { gather: 1 });
  const box = (query: string, change: (query: string) => void) => (
    <input value={query} onChange={event => change(event.target.value)} />
  );
  render(<Panel model={model} actions={ACTIONS} server={null} onNewJob={() => undefined} filterBox={box} />);
  await act(async () => model.start());
  fireEvent.pointerMove(document.querySelector('.runai-Panel')!);
  return model;
}

const rows = () => document.querySelectorAll('.runai-Job').length;
const more = () => document.querySelector<HTMLElement>('button.runai-More');
const lists = ({ asked }: Scheduler) => asked.filter(request => request.startsWith('GET jobs')).length;

it('counts all jobs and loads further ones until all are shown', async () => {
  const [, model] = await panel(450);
  await screen.findByRole('tab', { name: 'Mine 450' });
  expect(model.state.jobs.size).toBe(200);
  while (more()) {
    const before = rows();
    fireEvent.click(more()!);
    await waitFor(() => expect(rows() > before || !more()).toBe(true));
    await waitFor(() => expect(document.querySelector('.runai-Hint.runai-More')).toBeNull());
  }
  expect(rows()).toBe(450);
  model.dispose();
});

it('finds jobs that were not loaded', async () => {
  const [, model] = await panel(450);
  fireEvent.click(await screen.findByRole('button', { name: 'Filter the jobs' }));
  fireEvent.change(screen.getByRole('textbox'), { target: { value: 'ada train-444' } });
  await screen.findByText('train-444');
  expect(rows()).toBe(1);
  fireEvent.change(screen.getByRole('textbox'), { target: { value: 'nothing' } });
  await screen.findByText('No job matches “nothing”.');
  model.dispose();
});

it('starts with the jobs of the caller, the running one included, behind many newer ones of others', async () => {
  const scheduler = new Scheduler();
  for (let n = 0; n < 3; n++) {
    scheduler.jobs.set(`m${n}`, aJob(`m${n}`, { name: `mine-${n}`, submitted: n, state: n ? 'queued' : 'running' }));
  }
  for (let n = 0; n < 450; n++) {
    const other = { name: `theirs-${n}`, user: 'ben', mine: false, submitted: 1000 + n };
    scheduler.jobs.set(`t${n}`, aJob(`t${n}`, other));
  }
  scheduler.me = { ...scheduler.me, jobs: { running: 1, stopping: 0, waiting: 2, paused: 0 } };
  const model = await shown(scheduler);
  await screen.findByText('mine-0');
  expect(rows()).toBe(3);
  expect(more()).toBeNull();
  model.dispose();
});

it('asks the service for nothing more where all jobs are loaded', async () => {
  const [scheduler, model] = await panel(60);
  const asked = lists(scheduler);
  fireEvent.click(await screen.findByRole('button', { name: 'Show 10 more jobs' }));
  expect(rows()).toBe(60);
  expect(more()).toBeNull();
  expect(lists(scheduler)).toBe(asked);
  model.dispose();
});
