/** The schedules in the panel. */
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import type { ScheduleView } from '../../model/api';
import { PoolModel } from '../../model/pool';
import { cronOf, timesInWords, timesOf } from '../../model/schedules';
import { plain } from '../../trans';
import { Panel } from '../panel';

// jsdom has no layout: treat everything as visible.
beforeEach(() => {
  vi.spyOn(HTMLElement.prototype, 'offsetParent', 'get').mockReturnValue(document.body);
});

let model: PoolModel;
afterEach(() => {
  cleanup();
  model.dispose();
});

const NIGHTLY: ScheduleView = {
  id: 'c1',
  name: 'nightly',
  cron: '0 2 * * *',
  timezone: 'Pacific/Auckland',
  active: true,
  notice: '',
  created: 1,
  next_run: 4_000_000_000,
  project: 'vision',
  kind: 'command',
  command: ['true'],
  cell: null,
  last_job: null
};

async function panel(scheduler: Scheduler): Promise<{ asked: string[]; opened: string[] }> {
  model = new PoolModel(scheduler, { gather: 1 });
  const [asked, opened]: [string[], string[]] = [[], []];
  const actions = {
    act: () => Promise.resolve(),
    openJob: (id: string) => void opened.push(id),
    actOnSchedule: (schedule: ScheduleView, verb: string) => {
      asked.push(`${verb} ${schedule.id}`);
      return Promise.resolve();
    }
  };
  render(<Panel model={model} actions={actions} server={null} onNewJob={() => undefined} filterBox={query => query} />);
  await act(async () => model.start());
  return { asked, opened };
}

it('is folded while there are none, and shows one as soon as an event reports it', async () => {
  const scheduler = new Scheduler();
  await panel(scheduler);
  const fold = await screen.findByRole('button', { name: 'Schedules' });
  expect(fold.getAttribute('aria-expanded')).toBe('false');
  scheduler.schedules = [NIGHTLY];
  await act(async () => scheduler.tell('schedule.changed', 'c1'));
  await screen.findByText(/Every day at 02:00.AM · Pacific\/Auckland/);
  expect(fold.getAttribute('aria-expanded')).toBe('true');
  scheduler.schedules = [];
  await act(async () => scheduler.tell('schedule.deleted', 'c1'));
  await vi.waitFor(() => expect(document.querySelector('.runai-Schedule')).toBeNull());
  expect(fold.getAttribute('aria-expanded')).toBe('false');
  expect(scheduler.asked.filter(path => path === 'GET schedules')).toHaveLength(3);
});

it('leads to the last run, whose state is the current one, and offers what can be done', async () => {
  const scheduler = new Scheduler();
  const run = aJob('r1', { name: 'nightly', state: 'running', started: 5 });
  scheduler.jobs.set('r1', run);
  scheduler.schedules = [{ ...NIGHTLY, notice: 'Its last run is unfinished.', last_job: run }];
  const { asked, opened } = await panel(scheduler);
  fireEvent.click(await screen.findByText('Last run: running'));
  expect(opened).toEqual(['r1']);
  await act(async () => scheduler.set({ ...run, state: 'failed', ended: 9 }));
  await screen.findByText(/Last run: failed/);
  screen.getByText('Its last run is unfinished.');
  fireEvent.click(screen.getByLabelText('Run nightly now'));
  fireEvent.click(screen.getByLabelText('Pause the schedule nightly'));
  scheduler.schedules = [{ ...NIGHTLY, active: false, next_run: null }];
  await act(async () => scheduler.tell('schedule.changed', 'c1'));
  fireEvent.click(await screen.findByLabelText('Resume the schedule nightly'));
  fireEvent.click(screen.getByLabelText('Remove the schedule nightly'));
  expect(asked).toEqual(['run c1', 'pause c1', 'resume c1', 'remove c1']);
});

it.each([
  ['0 2 * * *', 'Every day at 02:00 AM'],
  ['30 18 * * mon-fri', 'Monday to Friday at 06:30 PM'],
  ['5 9 * * 7', 'Every Sunday at 09:05 AM'],
  ['0 9 1 * *', 'On day 1 of each month at 09:00 AM'],
  ['*/5 * * * *', '*/5 * * * *'],
  ['0 2 1 * mon', '0 2 1 * mon']
])('says %s in words', (cron, words) => {
  expect(timesInWords(cron, plain).replace('\u202f', ' ')).toBe(words); // as the locale en-US writes times
});

it('reads the usual times of a cron expression, and writes the same one', () => {
  for (const cron of ['0 2 * * *', '30 6 * * 1-5', '59 23 * * 0']) {
    expect(cronOf(timesOf(cron)!)).toBe(cron);
  }
  for (const other of ['', 'soon', '*/5 * * * *', '0 9 1 * *', '60 2 * * *', '0 24 * * *', '0 2 * * 7']) {
    expect(timesOf(other)).toBeNull();
  }
});
