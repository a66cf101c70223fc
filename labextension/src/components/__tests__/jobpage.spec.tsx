/** The view of a single job. */
import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import type { AttemptView, Explanation, JobView, RemedyAction } from '../../model/api';
import { PoolModel } from '../../model/pool';
import { JobPage } from '../jobpage';

// jsdom has no layout: treat everything as visible.
beforeEach(() => {
  vi.spyOn(HTMLElement.prototype, 'offsetParent', 'get').mockReturnValue(document.body);
});

let model: PoolModel;
afterEach(() => {
  cleanup();
  model.dispose();
});

const attempt = (number: number, change: Partial<AttemptView> = {}): AttemptView => ({
  number,
  created: 1000,
  started: 1000 + 100 * number,
  ended: null,
  workers: [0, 1].map(rank => ({ rank, node: 'n1', gpus: [rank], share: 1 })),
  stopping: null,
  exit_codes: [],
  reason: '',
  ending: null,
  ...change
});
const RUNNING = aJob('j', {
  name: 'digits',
  state: 'running',
  started: 1100,
  workers: 2,
  attempts: [attempt(1, { ended: 1160, ending: 'preempted', reason: 'Made room for speech.' }), attempt(2)]
});

async function page(scheduler: Scheduler, job: JobView) {
  scheduler.jobs.set(job.id, job);
  model = new PoolModel(scheduler, { gather: 1 });
  const copied: string[] = [];
  const saved: [string, Blob][] = [];
  const opened: unknown[] = [];
  const openCell = async (cell: unknown) => void opened.push(cell);
  const done: unknown[] = [];
  const changePriority = async (one: JobView) => void done.push(['priority', one.id]);
  const clone = async (one: JobView, options?: object) => void done.push(['clone', one.id, options]);
  const actions = {
    openCell,
    changePriority,
    clone,
    act: (one: JobView, verb: Parameters<PoolModel['act']>[1]) => model.act(one.id, verb)
  };
  render(
    <JobPage
      id={job.id}
      model={model}
      actions={actions}
      copy={text => copied.push(text)}
      save={(name, content) => saved.push([name, content])}
    />
  );
  await act(async () => model.start());
  await screen.findByText(job.name);
  return { copied, done, opened, saved };
}

const open = (name: string) => fireEvent.click(screen.getByText(name));
const rows = () =>
  [...document.querySelectorAll('.runai-Attempts tbody tr')].map(row =>
    [...row.children].map(cell => cell.textContent).filter((_, at) => at !== 1)
  );

it('shows the command, the options and why each attempt ended', async () => {
  const scheduler = new Scheduler();
  scheduler.submissions.set('j', {
    command: ['python', 'train.py', '--name', 'a b'],
    gpus: 1,
    workers: 2,
    min_workers: 2,
    grace: 30,
    max_runtime: 3600,
    env: { SECRET: 'xyz' },
    parameters: { lr: 0.1 },
    git: { commit: 'a1b2c3d4e5f60718293a4b5c6d7e8f9001122334', branch: 'main', changed: 2 },
    cell: { notebook: 'work/digits.ipynb', id: 'c1' }
  });
  const { copied, opened } = await page(scheduler, RUNNING);
  const command = await screen.findByLabelText('Command');
  expect(command.textContent).toBe('python train.py --name "a b"');
  expect(rows().map(row => [row[0], row[2], row[3]])).toEqual([
    ['2', 'n1 GPU 0,\u00a01', 'Running.'],
    ['1', 'n1 GPU 0,\u00a01', 'Made room for speech.']
  ]);
  expect(rows()[1]![1]).toBe('1\u00a0min');
  const facts = [...document.querySelectorAll('.runai-Facts dt')].map(
    name => `${name.textContent}: ${name.nextElementSibling!.textContent}`
  );
  expect(facts.slice(2)).toEqual([
    'Workers: 2',
    'Maximum run time: 1\u00a0h',
    'Parameters: lr=0.1',
    'Environment: SECRET',
    'Git: a1b2c3d on main, 2 files changed'
  ]);
  fireEvent.click(screen.getByText('Copy id'));
  expect(copied).toEqual(['j']);
  fireEvent.click(screen.getByText('Go to the cell in work/digits.ipynb'));
  expect(opened).toEqual([{ notebook: 'work/digits.ipynb', id: 'c1' }]);
  fireEvent.click(screen.getByText('Pause'));
  await screen.findByText('Resume');
});

it('shows the log of each worker in each attempt, to search and download', async () => {
  const scheduler = new Scheduler();
  scheduler.logs.set('j/2/0', 'alpha\nbeta\n').set('j/2/1', 'of rank 1\n').set('j/1/1', 'before\n');
  const { saved } = await page(scheduler, RUNNING);
  open('Log');
  await screen.findByText(/alpha/);
  fireEvent.change(screen.getByLabelText('Find in the log'), { target: { value: 'BET' } });
  await vi.waitFor(() => expect(screen.getByRole('log').textContent).toBe('beta'));
  expect(document.querySelector('mark')!.textContent).toBe('bet');
  fireEvent.change(screen.getByLabelText('Find in the log'), { target: { value: 'gamma' } });
  await screen.findByText('No line contains “gamma”.');
  fireEvent.change(screen.getByLabelText('Find in the log'), { target: { value: '' } });
  fireEvent.change(screen.getByLabelText('Rank'), { target: { value: '1' } });
  await screen.findByText(/of rank 1/);
  fireEvent.change(screen.getByLabelText('Attempt'), { target: { value: '1' } });
  await screen.findByText(/before/);
  await act(async () => fireEvent.click(screen.getByText('Download')));
  await vi.waitFor(() => expect(saved.map(([name, content]) => [name, content.size])).toEqual([['digits-1-1.log', 7]]));
});

it('draws how the GPUs of an attempt were used', async () => {
  const scheduler = new Scheduler();
  const [measured] = scheduler.history.points;
  const points = [1200, 1210].map(start => ({ ...measured!, start, utilisation: 0.5, used_memory_gib: 12 }));
  const gpus = [0, 1].map(rank => ({ rank, node: 'n1', gpu: rank, points }));
  scheduler.gpuUse = { ...scheduler.gpuUse, since: 1200, until: 1220, step: 10, held: 2, gpus };
  await page(scheduler, { ...RUNNING, total_gpus: 2 });
  open('Metrics');
  const chart = await screen.findByRole('figure', { name: /^Use/ });
  expect(chart.textContent).toContain('rank 1 · n1 GPU 1');
  expect(screen.getByRole('figure', { name: /^Memory/ }).textContent).toMatch(/12\sGiB/);
  expect(scheduler.asked.filter(asked => asked.includes('gpu-use'))).toEqual(['GET jobs/j/gpu-use?attempt=2']);
  scheduler.gpuUse = { ...scheduler.gpuUse, step: 0, gpus: [] };
  fireEvent.change(screen.getByLabelText('Attempt'), { target: { value: '1' } });
  await screen.findByText('The GPUs of this pool are declared: their use is not measured.');
});

it('draws each metric over the steps, with values read out by keyboard', async () => {
  const scheduler = new Scheduler();
  const points = [4, 2, 1].map((loss, at) => ({ step: 10 * at, loss, time: at }));
  scheduler.reports.set('j', points);
  await page(scheduler, RUNNING);
  open('Metrics');
  await screen.findByText('1 at step 20');
  const chart = document.querySelector('.runai-LineChart svg')!;
  expect(chart.querySelector('polyline')!.getAttribute('points')).toBe('0.00,0.00 50.00,66.67 100.00,100.00');
  fireEvent.keyDown(chart, { key: 'ArrowLeft' });
  await screen.findByText('2 at step 10');
  const ends = () => [...document.querySelectorAll('.runai-LineChart-steps span')].map(end => end.textContent);
  fireEvent.keyDown(chart, { key: '+' });
  expect(ends()).toEqual(['step 5', 'step 15']);
  fireEvent.keyDown(chart, { key: '-' });
  expect(ends()).toEqual(['step 0', 'step 20']);
  fireEvent.keyDown(chart, { key: '+' });
  open('Show all');
  expect(ends()).toEqual(['step 0', 'step 20']);
  expect(screen.queryByText('Show all')).toBeNull();
});

it('compares a metric with that of other jobs of mine that have run, and of its array', async () => {
  const scheduler = new Scheduler();
  const told = (...losses: number[]) => losses.map((loss, at) => ({ step: 10 * at, loss, time: at }));
  scheduler.reports
    .set('j', told(4, 2, 1))
    .set('k', told(5, 3))
    .set('m', [{ accuracy: 0.5, time: 1 }]);
  scheduler.jobs.set('k', aJob('k', { name: 'sibling', state: 'succeeded', array: 'a', attempts: [attempt(1)] }));
  scheduler.jobs.set('m', aJob('m', { name: 'other', state: 'running', attempts: [attempt(1)] }));
  scheduler.jobs.set('w', aJob('w', { name: 'waits' }));
  scheduler.jobs.set('b', aJob('b', { name: 'of ben', mine: false, user: 'ben', attempts: [attempt(1)] }));
  await page(scheduler, { ...RUNNING, array: 'a' });
  open('Metrics');
  const select = await screen.findByLabelText('Compare with');
  const offered = () =>
    [...select.querySelectorAll('optgroup')].map(group => [
      group.label,
      ...[...group.children].map(option => option.textContent!.split(' · ')[0])
    ]);
  expect(offered()).toEqual([
    ['The same array', 'sibling'],
    ['My jobs', 'other']
  ]);
  fireEvent.change(select, { target: { value: 'k' } });
  fireEvent.change(select, { target: { value: 'm' } });
  const legend = () =>
    [...document.querySelectorAll('.runai-LineChart-legend > li')].map(line => line.textContent!.trim());
  await vi.waitFor(() => expect(legend()).toEqual(['digits1', 'sibling3', 'othernot reported']));
  const chart = document.querySelector('.runai-LineChart > svg')!;
  const drawn = [...chart.querySelectorAll('polyline')].map(line => line.getAttribute('points'));
  expect(drawn).toEqual(['0.00,25.00 50.00,75.00 100.00,100.00', '0.00,0.00 50.00,50.00']);
  fireEvent.keyDown(chart, { key: 'ArrowLeft' });
  fireEvent.keyDown(chart, { key: 'ArrowLeft' });
  expect(legend()).toEqual(['digits4', 'sibling5', 'othernot reported']);
  fireEvent.click(screen.getByLabelText('Compare with sibling no longer'));
  fireEvent.click(screen.getByLabelText('Compare with other no longer'));
  expect(legend()).toEqual([]);
});

it('previews text files and renders no HTML', async () => {
  const scheduler = new Scheduler();
  const file = (path: string) => ({ path, size: 12, modified: 0 });
  scheduler.files.set('j', [file('notes.txt'), file('report.html'), file('weights.bin')]);
  scheduler.contents.set('notes.txt', 'well done');
  await page(scheduler, RUNNING);
  open('Files');
  fireEvent.click(await screen.findByLabelText('Preview notes.txt'));
  await screen.findByText('well done');
  expect(document.querySelectorAll('[aria-label^=Preview]')).toHaveLength(1);
});

it('explains what the job waits for, what holds the GPUs and what would help; others cannot read the log', async () => {
  const scheduler = new Scheduler();
  scheduler.explanations.set('q', {
    ...({} as Explanation),
    reason: 'Needs 8 GPUs on one node.',
    position: 2,
    waiting: 5,
    project: 'vision',
    estimated_start: null,
    estimate: 'Nobody knows how long the running jobs take.',
    expected_runtime: null,
    holders: [
      {
        project: 'speech',
        gpus: 6,
        over_quota: 2,
        jobs: [{ id: 'x', name: 'big', user: 'ben', gpus: 6, over_quota: true, expected_end: null }]
      }
    ],
    remedies: [{ sentence: 'Ask for 4 GPUs.', action: null }]
  });
  await page(scheduler, aJob('q', { name: 'waits', mine: false, user: 'ben' }));
  expect([...document.querySelectorAll('[role=tab]')].map(tab => tab.textContent)).toEqual(['Overview', 'Why?']);
  fireEvent.keyDown(screen.getByText('Overview'), { key: 'ArrowRight' });
  await screen.findByText('number 2 of 5 in project vision');
  expect(document.activeElement!.textContent).toBe('Why?');
  expect(screen.getByText('speech: 6 GPUs – big of ben (6)')).toBeTruthy();
  expect(screen.getByText('Ask for 4 GPUs.')).toBeTruthy();
});

it('does what would help, where that is in the hands of the reader', async () => {
  const scheduler = new Scheduler();
  const sentence = (kind: string) => `Remedy: ${kind}.`;
  const remedy = (kind: RemedyAction['kind'], job: string, options = {}) => ({
    sentence: sentence(kind),
    action: { kind, job, name: job, options }
  });
  scheduler.jobs.set('b-12', aJob('b-12', { name: 'b-12', state: 'running' }));
  scheduler.explanations.set('q', {
    ...({} as Explanation),
    reason: 'Needs 8 GPUs on one node.',
    position: null,
    estimated_start: null,
    expected_runtime: null,
    holders: [],
    remedies: [
      remedy('priority', 'q'),
      remedy('clone', 'q', { gpu_types: '' }),
      remedy('cancel', 'b-12'),
      { sentence: 'The resumed job is gone.', action: { kind: 'resume', job: 'gone', name: 'gone', options: {} } },
      { sentence: 'Others end.', action: null }
    ]
  });
  const { done } = await page(scheduler, aJob('q', { name: 'waits' }));
  open('Why?');
  await screen.findByText(sentence('clone'));
  expect([...document.querySelectorAll('.runai-Why button')].map(button => button.textContent)).toEqual([
    'Change the priority…',
    'Clone with any GPU type…',
    'Cancel b-12…',
    'Resume'
  ]);
  open('Change the priority…');
  await vi.waitFor(() => expect(done).toEqual([['priority', 'q']]));
  open('Clone with any GPU type…');
  await vi.waitFor(() => expect(done.at(-1)).toEqual(['clone', 'q', { gpu_types: '' }]));
  open('Cancel b-12…');
  await vi.waitFor(() => expect(scheduler.jobs.get('b-12')!.state).toBe('cancelled'));
  open('Resume');
  await screen.findByRole('alert');
});
