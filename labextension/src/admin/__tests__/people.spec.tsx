import { act, cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { aSession, Scheduler } from '../../__tests__/scheduler';
import type { GpuView, NodeView, Occupant, SessionView, UserList, UserView } from '../../model/api';
import { clock } from '../../model/format';
import { PoolModel } from '../../model/pool';
import { PoolPage } from '../page';

const ada: UserView = {
  name: 'ada',
  groups: ['ml-101'],
  build_quota: 1,
  build_quota_source: 'default',
  build_quota_group: null,
  build_gpus: 1,
  sessions: 1,
  running: 0,
  train_gpus: 0,
  waiting: 0,
  last_activity: null
};

/** A scheduler with users and groups; the requested changes are in `changed`. */
class People extends Scheduler {
  list: UserList = {
    users: [ada, { ...ada, name: 'ben', groups: [] }],
    groups: [{ name: 'ml-101', build_quota: null, users: 1 }],
    default_build_quota: 1,
    total: 2,
    hub_problem: null,
    next: null
  };
  readonly changed: [string, unknown][] = [];

  override async send(path: string, init: RequestInit = {}): Promise<Response> {
    if (this.trouble) {
      return super.send(path, init);
    }
    if (path.startsWith('users?')) {
      const find = new URLSearchParams(path.slice('users?'.length)).get('find') ?? '';
      const users = this.list.users.filter(user => user.name.includes(find));
      return new Response(JSON.stringify({ ...this.list, users, total: users.length }));
    }
    if (path.endsWith('/build-quota') || path.endsWith('/stop')) {
      this.changed.push([`${init.method} ${path}`, init.body ? JSON.parse(String(init.body)) : null]);
      return new Response(null, { status: 204 });
    }
    return super.send(path, init);
  }
}

beforeEach(() => {
  location.hash = '#people';
});

afterEach(() => {
  cleanup();
  location.hash = '';
});

async function page(
  idle = 7210,
  stops_at: number | null = null,
  because: SessionView['stops_because'] = null
): Promise<[People, PoolModel]> {
  const scheduler = new People();
  scheduler.me = { ...scheduler.me, admin: true };
  scheduler.sessions = [aSession('s1', { server: 'lab', idle_since: Date.now() / 1000 - idle, stops_at })];
  scheduler.sessions[0]!.stops_because = because;
  const model = new PoolModel(scheduler, { gather: 1, figures: 1 }, true);
  render(<PoolPage model={model} />);
  await act(async () => model.start());
  await screen.findByRole('button', { name: 'Build quota of ben' });
  return [scheduler, model];
}

it('shows when an idle server will be stopped, however short it was idle', async () => {
  const [, model] = await page(59, Date.now() / 1000 + 60, 'idle');
  await screen.findByText(/^59 s.*, stops at |^1 min, stops at /);
  model.dispose();
});

it('shows when a server that is used will be stopped, because it has run for the longest time', async () => {
  const [, model] = await page(0, Date.now() / 1000 + 60, 'max_duration');
  await screen.findByText(/^stops at /);
  model.dispose();
});

it('shows to which job an idle server lends its GPUs, since when, and that it gets them back', async () => {
  const [scheduler, model] = await page();
  const lent_since = Date.now() / 1000 - 60;
  const since = clock(lent_since, Date.now() / 1000);
  const lent = [{ rank: 0, node: 'n1', gpus: [0], share: 1 }];
  const told = (change: Partial<SessionView>) =>
    act(async () =>
      scheduler.tell('session.state', 's1', { session: aSession('s1', { lent, lent_since, ...change }) })
    );
  await told({});
  await screen.findByText(`to be lent since ${since}, to no job yet`);
  const job: Occupant = {
    kind: 'job',
    id: 'j1',
    name: 'resnet',
    project: 'p',
    user: 'ben',
    share: 1,
    over_quota: true
  };
  const gpu: GpuView = {
    index: 0,
    memory_gib: 80,
    used_memory_gib: null,
    utilisation: null,
    declared: false,
    foreign: 0,
    failure: null,
    slowness: 1,
    occupants: [job]
  };
  const node: NodeView = {
    name: 'n1',
    node_pool: 'build',
    environment: 'build',
    gpu_type: null,
    schedulable: true,
    drained: null,
    gpu_parts: 0,
    isolation: 'unknown',
    declared: true,
    gpus: [gpu]
  };
  scheduler.pool = { ...scheduler.pool, nodes: [node] };
  act(() => scheduler.tell('pool.changed', 'pool'));
  await screen.findByText(`lent to resnet since ${since}`);
  await told({ recalled_since: lent_since + 30 });
  await screen.findByText('gets its GPUs back from resnet');
  await told({ lent: [], lent_since: null, taken_since: lent_since });
  await screen.findByText(`GPUs taken back at ${since}`);
  model.dispose();
});

it('sets a build quota for a user and removes it', async () => {
  const [scheduler, model] = await page();
  fireEvent.click(screen.getByRole('button', { name: 'Build quota of ada' }));
  expect(screen.queryByText('Remove')).toBeNull();
  fireEvent.change(screen.getByLabelText('GPUs'), { target: { value: 'two' } });
  fireEvent.click(screen.getByText('Set'));
  await screen.findByText('Enter a number of GPUs, such as 0, 0.5 or 2.');
  scheduler.list.users[0] = { ...ada, build_quota: 2, build_quota_source: 'user' };
  fireEvent.change(screen.getByLabelText('GPUs'), { target: { value: '2' } });
  fireEvent.click(screen.getByText('Set'));
  await screen.findByText('own');
  fireEvent.click(screen.getByRole('button', { name: 'Build quota of ada' }));
  fireEvent.click(await screen.findByText('Remove'));
  await act(async () => {});
  expect(scheduler.changed).toEqual([
    ['PUT users/ada/build-quota', { gpus: 2 }],
    ['DELETE users/ada/build-quota', null]
  ]);
  model.dispose();
});

it('sets the build quota of a group, and keeps the typed number when it is refused', async () => {
  const [scheduler, model] = await page();
  fireEvent.click(screen.getByRole('button', { name: 'Build quota of ml-101' }));
  fireEvent.change(screen.getByLabelText('GPUs'), { target: { value: '0.5' } });
  scheduler.trouble = [503, { detail: 'The disk is full.', status: 503 }];
  fireEvent.click(screen.getByText('Set'));
  await screen.findByText('The disk is full.');
  expect(screen.getByLabelText<HTMLInputElement>('GPUs').value).toBe('0.5');
  scheduler.trouble = null;
  fireEvent.click(screen.getByText('Set'));
  await act(async () => {});
  expect(scheduler.changed).toEqual([['PUT groups/ml-101/build-quota', { gpus: 0.5 }]]);
  model.dispose();
});

it('finds users and says when the hub does not list them all', async () => {
  const [scheduler, model] = await page();
  scheduler.list.hub_problem = 'The hub does not answer.';
  fireEvent.change(screen.getByLabelText('Name or group'), { target: { value: 'be' } });
  fireEvent.click(screen.getByText('Find'));
  await screen.findByText('Users whom only the hub knows are missing. The hub does not answer.');
  const people = screen.getByRole('region', { name: 'People' });
  expect(within(people).queryByRole('rowheader', { name: 'ada' })).toBeNull();
  expect(within(people).getByText('1 user')).toBeTruthy();
  model.dispose();
});

it('stops the server of a session after a confirmation', async () => {
  const [scheduler, model] = await page();
  await screen.findByText(/^2 h( \d+ min)?$/);
  const button = () => screen.getByRole('button', { name: 'Stop the server of ada/lab' });
  fireEvent.click(button());
  fireEvent.click(await screen.findByText('Keep it'));
  await act(async () => {});
  expect(scheduler.changed).toEqual([]);
  fireEvent.click(button());
  fireEvent.click(await screen.findByText('Stop the server'));
  await act(async () => {});
  expect(scheduler.changed).toEqual([['POST sessions/s1/stop', null]]);
  model.dispose();
});

it('shows the servers in line, and removes one after a confirmation', async () => {
  const [scheduler, model] = await page();
  expect(screen.queryByRole('region', { name: 'In line' })).toBeNull();
  const free = Date.now() / 1000 + 60;
  scheduler.line = [
    aSession('s7', {
      user: 'ben',
      state: 'requested',
      position: 1,
      requested: Date.now() / 1000 - 610,
      estimated_start: free
    }),
    aSession('s8', { user: 'cy', state: 'requested', position: 2, requested: Date.now() / 1000 - 5 })
  ];
  fireEvent.click(screen.getByRole('button', { name: 'Stop the server of ada/lab' }));
  fireEvent.click(await screen.findByText('Stop the server'));
  const line = await screen.findByRole('region', { name: 'In line' });
  const rows = within(line)
    .getAllByRole<HTMLTableRowElement>('row')
    .slice(1)
    .map(row => [...row.cells].map(cell => cell.textContent));
  expect(rows).toEqual([
    ['ben', 'default', '1', '1', expect.stringMatching(/^10\smin$/), clock(free, Date.now() / 1000), 'Remove…'],
    ['cy', 'default', '1', '2', expect.stringMatching(/^\d+\ss$/), '–', 'Remove…']
  ]);
  scheduler.line = scheduler.line.slice(1);
  fireEvent.click(screen.getByRole('button', { name: /^Remove the server of ben.* from the line$/ }));
  fireEvent.click(await screen.findByText('Remove'));
  await act(async () => {});
  expect(scheduler.changed.map(([request]) => request)).toEqual(['POST sessions/s1/stop', 'POST sessions/s7/stop']);
  expect(within(screen.getByRole('region', { name: 'In line' })).queryByText('ben')).toBeNull();
  model.dispose();
});
