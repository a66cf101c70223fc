import { readFileSync } from 'node:fs';
import { act, cleanup, fireEvent, render, screen, waitFor, within } from '@testing-library/react';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { aJob, aProject, aSession, Scheduler } from '../../__tests__/scheduler';
import type { GpuView, Occupant } from '../../model/api';
import { PoolModel } from '../../model/pool';
import { plain } from '../../trans';
import { GpuGrid, gpuWords } from '../grid';
import { viewOf } from '../address';
import { byPosition } from '../overview';
import { PoolPage } from '../page';
import { asTree } from '../projects';
import { measured } from '../tiles';
import { ServiceTransport, xsrfToken } from '../transport';

afterEach(cleanup);

const occupant: Occupant = {
  kind: 'job',
  id: 'a',
  name: 'sweep',
  project: 'vision',
  user: 'ada',
  share: 1,
  over_quota: false
};

function gpu(occupants: Occupant[], change: Partial<GpuView> = {}): GpuView {
  return {
    index: 2,
    memory_gib: null,
    used_memory_gib: null,
    utilisation: null,
    declared: false,
    foreign: 0,
    failure: null,
    slowness: 1,
    occupants,
    ...change
  };
}

describe('a GPU in words', () => {
  it.each<[GpuView, string]>([
    [gpu([]), 'GPU 2 · free'],
    [gpu([occupant]), 'GPU 2 · sweep of ada, project vision'],
    [gpu([], { foreign: 1 }), 'GPU 2 · used outside the pool'],
    [gpu([], { failure: 'Xid 79.' }), 'GPU 2 · out of use: Xid 79.'],
    [gpu([occupant], { foreign: 0.5 }), 'GPU 2 · sweep of ada, project vision; 0.5 used outside the pool'],
    [gpu([{ ...occupant, over_quota: true }]), 'GPU 2 · sweep of ada, project vision, over quota'],
    [gpu([{ ...occupant, kind: 'session', name: null }]), 'GPU 2 · notebook of ada'],
    [gpu([{ ...occupant, name: null, user: null, project: null, id: null }]), 'GPU 2 · a job of another project'],
    [gpu([{ ...occupant, kind: 'session', share: 0.25 }]), 'GPU 2 · 0.25 held by notebook of ada'],
    [
      gpu([occupant], { utilisation: 0.5, used_memory_gib: 12 }),
      'GPU 2 · sweep of ada, project vision · 50% busy, 12 GiB'
    ]
  ])('%j', (view, words) => {
    expect(gpuWords(view, plain)).toBe(words);
  });
});

describe('the sort order', () => {
  it('puts children below their parents', () => {
    const projects = [
      aProject('nlp', { parent: 'research' }),
      aProject('speech'),
      aProject('research'),
      aProject('vision', { parent: 'research' }),
      aProject('orphan', { parent: 'gone' })
    ];
    expect(asTree(projects).map(({ project, depth }) => `${depth} ${project.name}`)).toEqual([
      '0 orphan',
      '0 research',
      '1 nlp',
      '1 vision',
      '0 speech'
    ]);
  });

  it('puts the job that starts first at the head of the queue, and paused jobs at its end', () => {
    const jobs = [
      aJob('paused', { state: 'paused' }),
      aJob('third', { position: 2 }),
      aJob('second', { position: 1 }),
      aJob('first', { position: 2, estimated_start: 5 })
    ];
    expect(jobs.sort(byPosition).map(job => job.id)).toEqual(['first', 'second', 'third', 'paused']);
  });
});

const node = {
  name: 'n1',
  node_pool: 'train',
  environment: 'train' as const,
  gpu_type: null,
  schedulable: true,
  drained: null,
  gpu_parts: 0,
  isolation: 'unknown' as const,
  declared: true
};

describe('the map of the GPUs', () => {
  const kinds = () => [...document.querySelectorAll('.runai-Cell-part')].map(part => part.getAttribute('data-kind'));

  it.each([
    ['has its own colour for a GPU that fails', 'Xid 79.', ['train', 'failing']],
    ['explains that colour only where one fails', null, ['train', 'foreign']]
  ])('%s', (_, failure, expected) => {
    const scheduler = new Scheduler();
    const gpus = [gpu([{ ...occupant, share: 0.5 }], { failure, foreign: 0.5 })];
    const pool = { ...scheduler.pool, nodes: [{ ...node, gpus }] };
    render(<GpuGrid pool={pool} />);
    expect(kinds()).toEqual(expected);
    expect(screen.queryAllByText('out of use')).toHaveLength(failure ? 1 : 0);
  });
});

describe('GPU use', () => {
  it('is the mean of the measured GPUs, and null if none are measured', () => {
    const pool = new Scheduler().pool;
    expect(measured({ ...pool, nodes: [{ ...node, gpus: [gpu([])] }] })).toBeNull();
    const gpus = [gpu([], { utilisation: 1 }), gpu([], { utilisation: 0.5 })];
    expect(measured({ ...pool, nodes: [{ ...node, gpus }] })).toBe(0.75);
  });
});

describe('the transport to the service', () => {
  it.each([
    ['_xsrf=abc; other=1', 'abc'],
    ['x_xsrf=no; _xsrf="2|a"; _xsrf=hub', '2|a'],
    ['other=1', '']
  ])('finds the XSRF token in %j', (cookies, token) => {
    expect(xsrfToken(cookies)).toBe(token);
  });

  it('sends the XSRF token with every request', async () => {
    document.cookie = '_xsrf=secret';
    const sent = vi.spyOn(globalThis, 'fetch').mockImplementation(async () => new Response('{}'));
    await new ServiceTransport('/services/runai/', () => undefined).send('jobs/a/cancel', {
      method: 'POST'
    });
    const [url, init] = sent.mock.calls[0]!;
    expect(url).toBe('/services/runai/api/v1/jobs/a/cancel');
    expect(new Headers(init!.headers).get('X-XSRFToken')).toBe('secret');
  });
});

describe('an expired sign-in', () => {
  it('makes the browser sign in again and reports it', async () => {
    vi.spyOn(globalThis, 'fetch').mockImplementation(async () => new Response('{}', { status: 401 }));
    let asked = 0;
    const transport = new ServiceTransport('/services/runai/', () => (asked += 1));
    await expect(transport.send('me')).rejects.toThrow('signed out');
    expect(asked).toBe(1);
  });
});

describe('the page', () => {
  async function page(admin: boolean): Promise<[Scheduler, PoolModel]> {
    const scheduler = new Scheduler();
    scheduler.me = {
      ...scheduler.me,
      name: 'root',
      admin,
      scopes: admin ? ['read', 'submit', 'admin'] : ['read', 'submit']
    };
    scheduler.jobs.set('a', aJob('a', { state: 'running', mine: false }));
    scheduler.jobs.set('b', aJob('b', { mine: false, position: 1, reason: 'Needs 8 GPUs on one node.' }));
    scheduler.pool = { ...scheduler.pool, waiting: 1 };
    const model = new PoolModel(scheduler, { gather: 1, figures: 1 });
    render(<PoolPage model={model} />);
    await act(async () => model.start());
    await screen.findByRole('region', { name: 'Queue' });
    return [scheduler, model];
  }

  it('shows the queue with reasons and positions', async () => {
    const [, model] = await page(true);
    const queue = screen.getByRole('region', { name: 'Queue' });
    expect(queue.textContent).toContain('next in line · Needs 8 GPUs on one node.');
    expect(within(screen.getByRole('region', { name: 'Running' })).getByText('job-a')).toBeTruthy();
    model.dispose();
  });

  it('tells that the GPUs of an idle server are lent, come back and are taken back', async () => {
    const [scheduler, model] = await page(true);
    const decisions = screen.getByRole('region', { name: 'Decisions' });
    const tell = (change: object) =>
      act(async () => scheduler.tell('session.state', 's1', { session: aSession('s1', { server: 'lab', ...change }) }));
    const at = Date.now() / 1000;
    await tell({ lent_since: at - 60 });
    await within(decisions).findByText(/The notebook server of ada\/lab is idle, and its GPUs are lent to jobs\.$/);
    await tell({ lent_since: at - 60, recalled_since: at });
    await within(decisions).findByText(/ada\/lab is used again, and gets its GPUs back\.$/);
    await tell({ taken_since: at });
    await within(decisions).findByText(/ada\/lab was idle, and its GPUs were taken back\.$/);
    model.dispose();
  });

  it('tells when a GPU fails and works again', async () => {
    const [scheduler, model] = await page(true);
    const decisions = screen.getByRole('region', { name: 'Decisions' });
    const tell = (id: number, before: string | null, after: string | null) =>
      act(async () => {
        const entry = {
          id,
          at: Date.now() / 1000 + id,
          user: null,
          action: 'change',
          kind: 'gpu',
          name: 'n1/2'
        } as const;
        scheduler.audit = [{ ...entry, before: { failure: before }, after: { failure: after } }];
        const node = scheduler.pool.nodes[0]!;
        scheduler.pool = { ...scheduler.pool, nodes: [{ ...node, gpus: [gpu([], { failure: after })] }] };
        scheduler.tell(after === null ? 'gpu.recovered' : 'gpu.failed', 'n1/2');
      });
    await tell(1, null, 'Xid 79.');
    await within(decisions).findByText('GPU n1/2 fails and gets no more work. Xid 79.');
    await tell(2, 'Xid 79.', null);
    await within(decisions).findByText('GPU n1/2 works again and gets work.');
    model.dispose();
  });

  it('calculates the longest wait without the time that a job has run', async () => {
    const [scheduler, model] = await page(true);
    const now = Date.now() / 1000;
    const ran = {
      number: 1,
      created: now - 7200,
      started: now - 7200,
      stopping: null,
      ended: now - 125,
      workers: [],
      exit_codes: []
    };
    const attempts = [{ ...ran, reason: '', ending: 'preempted' as const }];
    scheduler.set(aJob('b', { submitted: now - 7200, attempts }));
    await screen.findByText(/^longest 2\smin/);
    model.dispose();
  });

  it('lets an administrator cancel and delete a job after a confirmation', async () => {
    const [scheduler, model] = await page(true);
    fireEvent.click(screen.getByRole('button', { name: 'Cancel job-a' }));
    fireEvent.click(await screen.findByText('Keep it'));
    await waitFor(() => expect(screen.queryByText('Keep it')).toBeNull());
    expect(scheduler.jobs.get('a')!.state).toBe('running');
    fireEvent.click(screen.getByRole('button', { name: 'Cancel job-a' }));
    fireEvent.click(await screen.findByRole('button', { name: 'Cancel the job', hidden: true }));
    await waitFor(() => expect(scheduler.jobs.get('a')!.state).toBe('cancelled'));
    fireEvent.click(await screen.findByRole('button', { name: 'Delete job-a' }));
    await screen.findByText('Its log, files and checkpoints will be deleted, too. This cannot be undone.');
    fireEvent.click(screen.getByRole('button', { name: 'Delete the job', hidden: true }));
    await waitFor(() => expect(scheduler.jobs.has('a')).toBe(false));
    model.dispose();
  });

  it('offers no actions to users without the permission', async () => {
    const [, model] = await page(false);
    expect(screen.queryByRole('button', { name: /Cancel/ })).toBeNull();
    model.dispose();
  });
});

describe('the views', () => {
  afterEach(() => {
    location.hash = '';
  });

  it.each([
    ['', 'pool'],
    ['#nodes', 'nodes'],
    ['#jobs/j-0123456789ab', 'jobs'],
    ['#elsewhere', 'pool']
  ])('%j is the view of %s', (hash, view) => {
    expect(viewOf(hash)).toBe(view);
  });

  it('have URL fragments and mark the current view', async () => {
    const scheduler = new Scheduler();
    scheduler.projects = [aProject('vision', { weight: 3, members: ['*'], groups: ['linguists'] })];
    const model = new PoolModel(scheduler, { gather: 1, figures: 1 }, true);
    render(<PoolPage model={model} />);
    await act(async () => model.start());
    const link = await screen.findByRole('link', { name: 'Projects' });
    act(() => {
      location.hash = link.getAttribute('href')!;
      window.dispatchEvent(new HashChangeEvent('hashchange'));
    });
    expect(screen.getByRole('link', { current: 'page' })).toBe(link);
    const row = await screen.findByRole('row', { name: /^vision/ });
    expect(row.textContent).toContain('everybody, @linguists');
    expect(screen.queryByRole('region', { name: 'Queue' })).toBeNull();
    model.dispose();
  });
});

describe('the style sheet', () => {
  it('uses only variables that the page defines, because JupyterLab is absent', () => {
    const [base, admin] = ['base', 'admin'].map(name => readFileSync(`style/${name}.css`, 'utf8'));
    const used = `${base}${admin}`.matchAll(/var\((--jp-[a-z0-9-]+)\)/g);
    const missing = [...used].map(found => found[1]!).filter(name => !admin!.includes(`${name}:`));
    expect(missing).toEqual([]);
  });
});
