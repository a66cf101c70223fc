import { act, cleanup, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { aJob, aProject, aSession, Scheduler } from '../../__tests__/scheduler';
import type { AttemptView, JobState, JobView, Me } from '../../model/api';
import type { JobVerb } from '../../model/client';
import { PoolModel } from '../../model/pool';
import { plain } from '../../trans';
import { JobCard } from '../card';
import { Timeline } from '../figures';
import { StateIcon } from '../icons';
import { verbs, type JobActions } from '../job';
import { JobList, matches } from '../jobs';
import { Panel } from '../panel';
import { barSize, besideWords, outlook, QuotaBar, quotaWords } from '../quota';

const ADA: Me = {
  name: 'ada',
  admin: false,
  scopes: ['read', 'submit'],
  build_quota: 1,
  projects: ['vision'],
  jobs: { running: 0, stopping: 0, waiting: 0, paused: 0 },
  team_jobs: { running: 0, stopping: 0, waiting: 0, paused: 0 }
};
const READER: Me = { ...ADA, scopes: ['read'] };
const ROOT: Me = { ...ADA, name: 'root', admin: true, scopes: ['read', 'submit', 'admin'] };

afterEach(cleanup);

function fills(kind: string): number {
  const found = document.querySelectorAll<HTMLElement>(`.runai-Quota-fill[data-kind=${kind}]`);
  return [...found].reduce((sum, fill) => sum + parseFloat(fill.style.width) / 100, 0);
}

describe('the quota bar', () => {
  it('has one segment per GPU, a line at the guarantee, and a lighter colour beyond it', () => {
    render(<QuotaBar held={6} guaranteed={4} size={11} label="vision" />);
    expect(document.querySelectorAll('.runai-Quota-gpu')).toHaveLength(11);
    expect(fills('within')).toBeCloseTo(4);
    expect(fills('over')).toBeCloseTo(2);
    const line = document.querySelector<HTMLElement>('.runai-Quota-line');
    expect(parseFloat(line!.style.left)).toBeCloseTo((100 * 4) / 11);
  });

  it('fills a fraction of a segment for a fraction of a GPU', () => {
    render(<QuotaBar held={1.25} guaranteed={1} size={2} label="vision" />);
    expect(fills('within')).toBeCloseTo(1);
    expect(fills('over')).toBeCloseTo(0.25);
  });

  it('is continuous above twenty GPUs', () => {
    render(<QuotaBar held={32} guaranteed={24} size={64} label="vision" />);
    expect(document.querySelectorAll('.runai-Quota-gpu')).toHaveLength(1);
    expect(fills('within')).toBeCloseTo(24 / 64);
    expect(fills('over')).toBeCloseTo(8 / 64);
  });

  it('has no line if the guarantee is unlimited', () => {
    render(<QuotaBar held={2} guaranteed={null} size={4} label="vision" />);
    expect(fills('within')).toBeCloseTo(2);
    expect(document.querySelector('.runai-Quota-line')).toBeNull();
  });

  it.each([
    [4, '1 of 4 guaranteed'],
    [0, '1 allocated, none guaranteed'],
    [null, '1 held']
  ])('shows a guarantee of %j as text', (guaranteed, words) => {
    expect(quotaWords(aProject('vision', { allocated: 1, guaranteed_in_all: guaranteed }), plain)).toBe(words);
  });

  it('shows CPUs and memory if they are guaranteed or limited', () => {
    const cpus = { allocated_cpus: 4, guaranteed_cpus: 8, limit_cpus: 16 };
    expect(besideWords(aProject('vision', cpus), plain)).toBe('CPUs: 4 of 8 guaranteed, at most 16.');
    const memory = { allocated_memory_gib: 2.5, limit_memory_gib: 64 };
    expect(besideWords(aProject('vision', memory), plain)).toBe('GiB of memory: 2.5 allocated, at most 64.');
    expect(besideWords(aProject('vision', {}), plain)).toBe('');
  });

  it('extends from the GPUs in use to those that could start now', () => {
    expect(barSize(aProject('vision', { allocated: 6, guaranteed_in_all: 4, could_start: 5 }))).toBe(11);
    expect(outlook(aProject('vision', { over_quota: 2, could_start: 5 }), plain)).toBe(
      '2 over quota can be reclaimed. Up to 5 GPUs more can start now.'
    );
    expect(outlook(aProject('vision', { could_start: 0 }), plain)).toBe('A new job would wait.');
  });
});

describe('the icon of a job state', () => {
  const states: JobState[] = [
    'queued',
    'starting',
    'running',
    'stopping',
    'paused',
    'succeeded',
    'failed',
    'cancelled'
  ];

  it('differs from the others in shape and label', () => {
    const shapes = new Set<string>();
    const words = new Set<string>();
    for (const state of states) {
      const { container, unmount } = render(<StateIcon state={state} />);
      const icon = container.querySelector('svg')!;
      words.add(icon.getAttribute('aria-label')!);
      icon.querySelector('title')!.remove();
      shapes.add(icon.innerHTML);
      unmount();
    }
    expect(shapes.size).toBe(states.length);
    expect(words.size).toBe(states.length);
  });
});

describe('the actions on a job', () => {
  it.each<[string, Partial<JobView>, Me, JobVerb[]]>([
    ['the owner pauses and cancels', { state: 'running' }, ADA, ['pause', 'cancel']],
    ['the owner resumes what is paused', { state: 'paused' }, ADA, ['resume', 'cancel']],
    ['the owner deletes what has ended', { state: 'failed' }, ADA, ['delete']],
    ["nobody deletes another person's job", { state: 'failed', mine: false }, ADA, []],
    ['an administrator deletes any', { state: 'failed', mine: false }, ROOT, ['delete']],
    ["nobody stops another person's job", { state: 'running', mine: false }, ADA, []],
    ['a token that only reads stops nothing', { state: 'running' }, READER, []],
    ['an administrator stops any', { state: 'running', mine: false }, ROOT, ['pause', 'cancel']]
  ])('%s', (_, job, me, allowed) => {
    expect(verbs(aJob('a', job), me)).toEqual(allowed);
  });

  it('matches a job by its name, owner, project or state', () => {
    const job = aJob('j7', { name: 'Resnet sweep', state: 'running' });
    expect(matches(job, 'resnet RUN')).toBe(true);
    expect(matches(job, 'ada vision')).toBe(true);
    expect(matches(job, 'bert')).toBe(false);
  });
});

class Recorder implements JobActions {
  readonly done: string[] = [];
  async act(job: JobView, verb: JobVerb): Promise<void> {
    this.done.push(`${verb} ${job.id}`);
  }
}

function list(jobs: JobView[], actions: JobActions = new Recorder()) {
  return (
    <JobList
      jobs={jobs}
      me={ADA}
      model={new PoolModel(new Scheduler())}
      actions={actions}
      named={false}
      label="My jobs"
      empty="none"
    />
  );
}

const names = () => [...document.querySelectorAll('.runai-Job .runai-Name')].map(name => name.textContent);

describe('the list of jobs', () => {
  const old = aJob('old', { submitted: 1 });
  const done = aJob('done', { state: 'succeeded', submitted: 5, ended: 6 });
  const young = aJob('young', { submitted: 9 });

  it('shows the newest jobs first and finished jobs last', () => {
    render(list([done, old, young]));
    expect(names()).toEqual(['job-young', 'job-old', 'job-done']);
  });

  it('is navigated with the arrow keys, and Enter opens a job', () => {
    render(list([old, young]));
    const heads = [...document.querySelectorAll<HTMLElement>('.runai-Job-head')];
    expect(heads.map(head => head.tabIndex)).toEqual([0, -1]);
    heads[0]!.focus();
    fireEvent.keyDown(heads[0]!, { key: 'ArrowDown' });
    expect(document.activeElement).toBe(heads[1]);
    expect(heads.map(head => head.tabIndex)).toEqual([-1, 0]);
    const pause = screen.getByRole('button', { name: 'Pause job-old' });
    pause.focus();
    fireEvent.keyDown(pause, { key: 'ArrowUp' });
    expect(document.activeElement).toBe(heads[0]);
    fireEvent.keyDown(heads[0]!, { key: 'ArrowDown' });
    fireEvent.keyDown(heads[1]!, { key: 'Enter' });
    expect(heads[1]!.getAttribute('aria-expanded')).toBe('true');
    expect(screen.getByText('The log will appear when the job starts.')).toBeTruthy();
  });

  it('shows running jobs before waiting ones, and jobs of an array by index', () => {
    const array = (index: number, change: Partial<JobView> = {}) =>
      aJob(`x${index}`, { name: `arr-${index}`, array: 'x', index, submitted: index, ...change });
    const running = { state: 'running' as const };
    const jobs = [array(10), array(2), array(11, running), array(6, running), aJob('held', { state: 'paused' })];
    render(list([...jobs, aJob('new', { submitted: 5000 })]));
    expect(names()).toEqual(['arr-6', 'arr-11', 'job-new', 'arr-2', 'arr-10', 'job-held']);
  });

  it('shows the whole reason of an opened job', () => {
    render(list([aJob('old', { state: 'queued', reason: 'Needs 8 GPUs on one node.' })]));
    expect(screen.queryByText('Waits for')).toBeNull();
    fireEvent.click(document.querySelector('.runai-Job-head')!);
    expect(screen.getByText('Waits for').nextElementSibling!.textContent).toBe('Needs 8 GPUs on one node.');
  });

  it('acts on the job whose button was pressed', () => {
    const actions = new Recorder();
    render(list([aJob('old', { state: 'running' })], actions));
    fireEvent.click(screen.getByRole('button', { name: 'Pause job-old' }));
    fireEvent.click(screen.getByRole('button', { name: 'Cancel job-old' }));
    expect(actions.done).toEqual(['pause old', 'cancel old']);
  });

  it('keeps the focus on a job when the focused button disappears', () => {
    const { rerender } = render(list([young, old]));
    const cancel = screen.getByRole('button', { name: 'Cancel job-old' });
    cancel.focus();
    rerender(list([young, { ...old, state: 'succeeded', ended: 7 }]));
    const row = document.querySelector('[data-job=old]')!;
    expect(document.activeElement).toBe(row.querySelector('.runai-Job-head'));
    rerender(list([young]));
    expect(document.activeElement).toBe(document.querySelector('[data-job=young] .runai-Job-head'));
  });

  it('does not take the focus from other elements', () => {
    const { rerender } = render(list([young, old]));
    const cancel = screen.getByRole('button', { name: 'Cancel job-old' });
    cancel.focus();
    cancel.blur();
    rerender(list([young]));
    expect(document.activeElement).toBe(document.body);
  });

  it('shows what to do when it is empty', () => {
    render(list([]));
    expect(screen.getByText('none')).toBeTruthy();
  });
});

describe('the panel', () => {
  const newJob = vi.fn();

  async function panel(
    prepare: (scheduler: Scheduler) => void,
    server: string | null = null
  ): Promise<[Scheduler, PoolModel]> {
    const scheduler = new Scheduler();
    prepare(scheduler);
    const model = new PoolModel(scheduler, {
      firstDelay: 1,
      longestDelay: 1,
      refusedDelay: 1,
      gather: 1
    });
    render(<Panel model={model} actions={new Recorder()} server={server} onNewJob={newJob} filterBox={() => null} />);
    await act(async () => model.start());
    return [scheduler, model];
  }

  it('opens the form for a new job for users who may submit', async () => {
    await panel(() => undefined);
    fireEvent.click(await screen.findByRole('button', { name: 'New job' }));
    expect(newJob).toHaveBeenCalledOnce();
    cleanup();
    await panel(scheduler => (scheduler.me = READER));
    await screen.findByRole('button', { name: 'Filter the jobs' });
    expect(screen.queryByRole('button', { name: 'New job' })).toBeNull();
  });

  it('shows my GPUs and says that they are declared', async () => {
    const [, model] = await panel(() => undefined);
    const mine = await screen.findByRole('region', { name: 'My GPUs' });
    expect(within(mine).getByText('build · fixed quota 1')).toBeTruthy();
    expect(within(mine).getByText('box-build · GPU 0')).toBeTruthy();
    expect(mine.textContent).toContain('This GPU is declared; its use is not measured.');
    const projects = screen.getByRole('region', { name: 'My projects' });
    expect(within(projects).getByText('6 of 6 free')).toBeTruthy();
    expect(within(projects).getByText('Declared GPUs: no GPU was found.')).toBeTruthy();
    model.dispose();
  });

  it('distinguishes the GPUs of this server from those of my other servers', async () => {
    const [, model] = await panel(scheduler => {
      scheduler.sessions = [
        aSession('s1'),
        aSession('s2', {
          server: 'big',
          workers: [{ rank: 0, node: 'box-build', gpus: [1], share: 1 }]
        }),
        aSession('s3', { user: 'grace' })
      ];
    }, 'big');
    const mine = await screen.findByRole('region', { name: 'My GPUs' });
    const text = mine.textContent!;
    expect(text.indexOf('GPU 1')).toBeLessThan(text.indexOf('Your default server'));
    expect(text.indexOf('Your default server')).toBeLessThan(text.indexOf('GPU 0'));
    expect(within(mine).getAllByText(/box-build/)).toHaveLength(2);
    model.dispose();
  });

  it('shows the use of a shared GPU if it is measured, and what limits its memory', async () => {
    const [, model] = await panel(scheduler => {
      const workers = [{ rank: 0, node: 'box-build', gpus: [0], share: 0.5 }];
      scheduler.sessions = [aSession('s1', { declared: false, gpus: 0.5, workers, memory_warning: 'Too much.' })];
      scheduler.pool = {
        ...scheduler.pool,
        declared: false,
        nodes: [
          {
            name: 'box-build',
            node_pool: 'build',
            environment: 'build',
            gpu_type: 'A10',
            schedulable: true,
            drained: null,
            gpu_parts: 0,
            isolation: 'memory-limit',
            declared: false,
            gpus: [
              {
                index: 0,
                memory_gib: 24,
                used_memory_gib: 6,
                utilisation: 0.23,
                declared: false,
                foreign: 0,
                failure: null,
                slowness: 1,
                occupants: []
              }
            ]
          }
        ]
      };
    });
    const mine = await screen.findByRole('region', { name: 'My GPUs' });
    expect(mine.textContent).toContain('A10 · GPU 0');
    expect(within(mine).getByRole('meter').getAttribute('aria-valuenow')).toBe('0.23');
    expect(mine.textContent).toContain('6 GiB');
    expect(mine.textContent).not.toContain('eclared');
    expect(mine.textContent).toContain('The driver limits the GPU memory of each part.');
    expect(within(mine).getByRole('alert').textContent).toBe('Too much.');
    model.dispose();
  });

  it('shows a first example when there are no jobs', async () => {
    const [, model] = await panel(() => undefined);
    expect(await screen.findByText(/%%runai_train/)).toBeTruthy();
    model.dispose();
  });

  it('separates my jobs from those of my team', async () => {
    const [, model] = await panel(scheduler => {
      scheduler.jobs.set('a', aJob('a'));
      scheduler.jobs.set('b', aJob('b', { mine: false, user: 'grace' }));
    });
    await screen.findByText('job-a');
    expect(names()).toEqual(['job-a']);
    fireEvent.click(screen.getByRole('tab', { name: /Team 2/ }));
    expect(names().sort()).toEqual(['job-a', 'job-b']);
    expect(document.querySelector('[data-job=b]')!.textContent).toContain('grace');
    model.dispose();
  });

  it('does not change under an active pointer, and updates when the pointer leaves or rests', async () => {
    const [scheduler, model] = await panel(one => one.jobs.set('old', aJob('old')));
    await screen.findByText('job-old');
    const box = document.querySelector('.runai-Panel')!;
    const young = (state: JobView['state']) => aJob('young', { submitted: 9000, state });

    fireEvent.pointerMove(box);
    act(() => scheduler.set(aJob('old', { reason: 'Waits for vision.' })));
    act(() => scheduler.set(young('queued')));
    await screen.findByText(/Waits for vision/);
    await screen.findByRole('tab', { name: 'Mine 2' });
    expect(names()).toEqual(['job-old']);
    fireEvent.pointerLeave(box);
    expect(names()).toEqual(['job-young', 'job-old']);

    vi.useFakeTimers();
    try {
      fireEvent.pointerMove(box);
      act(() => scheduler.set(young('succeeded')));
      await act(() => vi.advanceTimersByTimeAsync(1000));
      expect(names()).toEqual(['job-young', 'job-old']);
      await act(() => vi.advanceTimersByTimeAsync(10_000));
      expect(names()).toEqual(['job-old', 'job-young']);
    } finally {
      vi.useRealTimers();
    }
    model.dispose();
  });

  it('shows one error message with a remedy when the scheduler refuses', async () => {
    const [scheduler, model] = await panel(one => {
      one.trouble = [403, { detail: 'Your token lacks the scope custom:runai:read.' }];
    });
    const note = await screen.findByRole('alert');
    expect(note.textContent).toContain('Your token lacks the scope custom:runai:read.');
    scheduler.trouble = null;
    fireEvent.click(within(note).getByRole('button', { name: 'Retry' }));
    await screen.findByRole('region', { name: 'My GPUs' });
    expect(screen.queryByRole('alert')).toBeNull();
    model.dispose();
  });
});

describe('the filter of the panel', () => {
  it('takes the keyboard focus when it opens and returns it when it closes', async () => {
    const scheduler = new Scheduler();
    scheduler.jobs.set('a', aJob('a')).set('b', aJob('b'));
    const model = new PoolModel(scheduler, { gather: 1 });
    const box = (query: string, change: (query: string) => void) => (
      <input value={query} onChange={event => change(event.target.value)} />
    );
    render(<Panel model={model} actions={new Recorder()} server={null} onNewJob={() => undefined} filterBox={box} />);
    await act(async () => model.start());
    const button = await screen.findByRole('button', { name: 'Filter the jobs' });
    fireEvent.click(button);
    const input = screen.getByRole('textbox');
    expect(document.activeElement).toBe(input);
    fireEvent.pointerMove(document.querySelector('.runai-Panel')!); // one's own actions are shown at once
    fireEvent.change(input, { target: { value: 'job-b' } });
    expect(names()).toEqual(['job-b']);
    fireEvent.keyDown(input, { key: 'Escape' });
    expect(screen.queryByRole('textbox')).toBeNull();
    expect(document.activeElement).toBe(button);
    expect(names().sort()).toEqual(['job-a', 'job-b']);
    await act(async () => {
      await model.act('a', 'cancel');
      await model.act('b', 'cancel');
    });
    fireEvent.pointerLeave(document.querySelector('.runai-Panel')!);
    fireEvent.pointerMove(document.querySelector('.runai-Panel')!);
    await act(() => model.act('b', 'delete'));
    expect(names()).toEqual(['job-a']);
    model.dispose();
  });
});

describe('the card of a job', () => {
  it('is operated by keyboard and keeps the focus', async () => {
    const scheduler = new Scheduler();
    scheduler.jobs.set('a', aJob('a', { state: 'running' }));
    const model = new PoolModel(scheduler, { gather: 1 });
    const actions = { act: (job: JobView, verb: JobVerb) => model.act(job.id, verb) };
    render(<JobCard id="a" model={model} actions={actions} otherwise="" />);
    await act(async () => model.start());
    const button = await screen.findByRole('button', { name: 'Pause' });
    button.focus();
    fireEvent.click(button);
    expect(document.activeElement).toBe(await screen.findByRole('button', { name: 'Resume' }));
    act(() => scheduler.set(aJob('a', { state: 'succeeded' })));
    await waitFor(() => expect(screen.queryByRole('button', { name: 'Resume' })).toBeNull());
    expect(document.activeElement).toBe(screen.getByRole('button', { name: 'Log' }));
    expect(screen.queryByRole('button', { name: 'Delete' })).toBeNull();
    model.dispose();
  });

  it('loads what a job returned, once it has succeeded', async () => {
    const scheduler = new Scheduler();
    const job = aJob('a', { state: 'running', outputs: ['model', 'accuracy'] });
    scheduler.jobs.set('a', job);
    const model = new PoolModel(scheduler, { gather: 1 });
    const load = vi.fn(() => Promise.resolve());
    render(<JobCard id="a" model={model} actions={new Recorder()} otherwise="" loadResults={load} />);
    await act(async () => model.start());
    await screen.findByRole('button', { name: 'Log' });
    expect(screen.queryByRole('button', { name: /Load results/ })).toBeNull();
    const done = { ...job, state: 'succeeded' as const };
    act(() => scheduler.set(done));
    fireEvent.click(await screen.findByRole('button', { name: 'Load results (model, accuracy)' }));
    expect(load).toHaveBeenCalledWith(done);
    await waitFor(() => expect(screen.getByRole<HTMLButtonElement>('button', { name: /Load/ }).disabled).toBe(false));
    model.dispose();
  });

  it('is live, and falls back to the plain text when the job no longer exists', async () => {
    const scheduler = new Scheduler();
    scheduler.jobs.set('a', aJob('a', { state: 'running' }));
    const model = new PoolModel(scheduler, { gather: 1 });
    const card = (id: string) => (
      <JobCard id={id} model={model} actions={new Recorder()} otherwise="digits: finished" />
    );
    const { rerender } = render(card('a'));
    await act(async () => model.start());
    await screen.findByText('job-a');
    act(() => scheduler.set(aJob('a', { state: 'failed', reason: 'Rank 0 exited with status 1.' })));
    await waitFor(() => expect(screen.getByText(/Rank 0 exited with status 1/)).toBeTruthy());
    fireEvent.pointerMove(document.querySelector('.runai-Card')!);
    const reason = screen.getByText(/Rank 0 exited with status 1/);
    expect(reason.style.minHeight).not.toBe('');
    expect(reason.style.overflow).toBe(''); // the next reason is shown in full, even under a pointer
    rerender(card('gone'));
    await screen.findByText(/^This pool has no such job/);
    expect(screen.getByText('digits: finished')).toBeTruthy();
    model.dispose();
  });

  it('shows progress, metrics and files', async () => {
    // jsdom has no layout, and hidden elements send no requests.
    vi.spyOn(HTMLElement.prototype, 'offsetParent', 'get').mockReturnValue(document.body);
    const scheduler = new Scheduler();
    const begun = Date.now() / 1000 - 60;
    const run = {
      number: 1,
      created: begun,
      started: begun,
      ended: null,
      workers: [],
      stopping: null,
      exit_codes: [],
      reason: '',
      ending: null
    };
    scheduler.jobs.set('a', aJob('a', { state: 'running', started: begun, attempts: [run] }));
    scheduler.reports.set('a', [
      { time: begun, attempt: 1, rank: 0, step: 0, total: 100, loss: 0.5 },
      { time: begun + 60, attempt: 1, rank: 0, step: 25, total: 100, loss: 0.25 }
    ]);
    scheduler.files.set('a', [
      { path: 'model.pt', size: 1536, modified: begun },
      { path: '.runai-cell/result.json', size: 1, modified: begun }
    ]);
    const model = new PoolModel(scheduler, { gather: 1 });
    render(<JobCard id="a" model={model} actions={new Recorder()} otherwise="" />);
    await act(async () => model.start());
    const bar = await screen.findByRole('progressbar');
    expect(bar.getAttribute('aria-valuenow')).toBe('25');
    expect(screen.getByText('25 / 100')).toBeTruthy();
    expect(screen.getByText(/step · ≈ (3 min|2 min)/)).toBeTruthy();
    expect(screen.getByRole('img', { name: 'loss from 0.5 to 0.25' })).toBeTruthy();
    fireEvent.click(screen.getByRole('button', { name: 'Files' }));
    await screen.findByText('model.pt');
    expect(screen.getByText('1.5 KiB')).toBeTruthy();
    expect(screen.queryByText(/result.json/)).toBeNull();
    model.dispose();
    vi.restoreAllMocks();
  });

  it('shows a timeline of its attempts and why one ended', () => {
    const attempt = (
      number: number,
      started: number,
      ended: number | null,
      ending: AttemptView['ending'],
      reason: string
    ) => ({
      number,
      created: started,
      started,
      ended,
      workers: [],
      stopping: null,
      exit_codes: [],
      reason,
      ending
    });
    const job = aJob('a', {
      state: 'running',
      started: 0,
      attempts: [attempt(1, 0, 50, 'preempted', 'paused for speech'), attempt(2, 75, null, null, '')]
    });
    const { unmount } = render(<Timeline job={job} now={100} />);
    const runs = [...document.querySelectorAll<HTMLElement>('.runai-Timeline-run')];
    expect(runs.map(run => [run.style.left, run.style.width])).toEqual([
      ['0%', '50%'],
      ['75%', '25%']
    ]);
    expect(screen.getByText(/stopped: paused for speech/)).toBeTruthy();
    expect(screen.getByText('now')).toBeTruthy();
    unmount();
    const stops = [
      attempt(1, 0, 50, 'preempted', 'paused for speech'),
      attempt(2, 75, 90, 'stopped', 'Paused by grace.')
    ];
    const again = render(<Timeline job={{ ...job, state: 'queued', attempts: stops }} now={100} />);
    expect(screen.getByText(/[AP]M Paused by grace\./)).toBeTruthy();
    expect(screen.queryByText(/for speech|resumed/)).toBeNull();
    again.unmount();
    const grown = attempt(1, 0, 50, 'resized', 'Grew from 2 to 4 workers: GPUs were idle.');
    const second = attempt(2, 51, null, null, '');
    const { rerender } = render(<Timeline job={{ ...job, attempts: [grown, second] }} now={100} />);
    expect(screen.getByText(/Grew from 2 to 4 workers/).textContent).not.toContain('stopped');
    expect(screen.getByText(/resumed$/)).toBeTruthy();
    const failed = attempt(1, 0, 50, 'failed', 'It ended with exit code 1.');
    rerender(<Timeline job={{ ...job, attempts: [failed, second] }} now={100} />);
    expect(screen.getByText(/failed: It ended with exit code 1/)).toBeTruthy();
    expect(screen.getByText(/tried again$/)).toBeTruthy();
  });
});
