import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { aJob, aProject, aSession, Scheduler } from '../../__tests__/scheduler';
import type { GpuView, NodeView } from '../api';
import { followLog, textOf } from '../log';
import { PoolModel } from '../pool';
import { followReports } from '../reports';
import type { PoolState } from '../state';
import { PoolError } from '../transport';

const QUICK = {
  firstDelay: 2,
  longestDelay: 5,
  refusedDelay: 5,
  silence: 2000,
  hidden: 2,
  gather: 1,
  figures: 2,
  shows: 2
};

let scheduler: Scheduler;
let model: PoolModel;

function until(holds: (state: PoolState) => unknown): Promise<PoolState> {
  return new Promise(resolve => {
    const look = () => {
      if (holds(model.state)) {
        model.stateChanged.disconnect(look);
        resolve(model.state);
      }
    };
    model.stateChanged.connect(look);
    look();
  });
}

const live = () => until(state => state.connection === 'live' && state.projects.length);

function hide(hidden: boolean): void {
  vi.spyOn(document, 'hidden', 'get').mockReturnValue(hidden);
  document.dispatchEvent(new Event('visibilitychange'));
}

beforeEach(() => {
  scheduler = new Scheduler();
  model = new PoolModel(scheduler, QUICK);
});

afterEach(() => model.dispose());

describe('the pool model', () => {
  it('shows the pool', async () => {
    scheduler.jobs.set('a', aJob('a'));
    model.start();
    const state = await live();
    expect(state.me?.name).toBe('ada');
    expect(state.jobs.get('a')).toEqual(aJob('a'));
    expect(state.sessions).toEqual([aSession('s1')]);
  });

  it('follows the events of a job', async () => {
    model.start();
    await live();
    scheduler.set(aJob('a'));
    await until(state => state.jobs.get('a')?.state === 'queued');
    scheduler.set(aJob('a', { state: 'running' }));
    await until(state => state.jobs.get('a')?.state === 'running');
    scheduler.jobs.delete('a');
    scheduler.tell('job.deleted', 'a');
    await until(state => !state.jobs.has('a'));
  });

  it('sends no requests while nothing changes', async () => {
    model.start();
    await live();
    const asked = scheduler.asked.length;
    await new Promise(resolve => setTimeout(resolve, 50));
    expect(scheduler.asked.length).toBe(asked);
  });

  it('reads what a job writes when the stream says so, and polls nothing', async () => {
    scheduler.jobs.set('a', aJob('a', { state: 'running' }));
    scheduler.logs.set('a', 'one');
    scheduler.reports.set('a', [{ step: 1 }]);
    model.start();
    await live();
    const abort = new AbortController();
    const seen = { log: '', steps: 0 };
    const reads = () => scheduler.asked.filter(asked => /logs|metrics/.test(asked)).length;
    const read = async (log: string, steps: number) => {
      await vi.waitFor(() => expect(seen).toEqual({ log, steps }), 4000);
      await new Promise(resolve => setTimeout(resolve, 1200)); // it rests between two reads
      return reads();
    };
    const never = () => false;
    void followLog(model.client, 'a', 1, 0, never, tail => (seen.log = textOf(tail.lines[0]!)), abort.signal);
    const show = (line: readonly object[]) => (seen.steps = line.length);
    void followReports(model.client, 'a', never, () => true, show, abort.signal);
    const before = await read('one', 1);
    expect(scheduler.shows.at(-1)).toEqual(['a']);
    scheduler.logs.set('a', 'one and two');
    scheduler.reports.set('a', [{ step: 1 }, { step: 2 }]);
    await new Promise(resolve => setTimeout(resolve, 1200));
    expect(reads()).toBe(before);
    scheduler.tellWritten('another', 'a');
    await read('one and two', 2);
    abort.abort();
    await vi.waitFor(() => expect(scheduler.shows.at(-1)).toEqual([]));
  });

  it('misses no event while it reads the pool', async () => {
    scheduler.jobs.set('a', aJob('a'));
    scheduler.before['/sessions'] = () => scheduler.set(aJob('late'));
    scheduler.before['/jobs'] = () => {
      scheduler.before = {};
      scheduler.jobs.delete('late');
    };
    model.start();
    await until(state => state.jobs.has('late'));
    expect(model.state.jobs.has('a')).toBe(true);
  });

  it('takes figures and queue positions from the stream, without requests', async () => {
    scheduler.jobs.set('a', aJob('a', { position: 7 }));
    const gpu = (index: number) => ({ index, utilisation: 0, used_memory_gib: 0 }) as GpuView;
    const node = { name: 'n1', gpus: [gpu(0), gpu(1)] } as NodeView;
    scheduler.pool = { ...scheduler.pool, nodes: [node] };
    model.start();
    await live();
    scheduler.asked.length = 0;
    scheduler.set(aJob('b'));
    const use = { utilisation: 0.5, used_memory_gib: 3 };
    const train = { gpus: 6, allocated: 4, over_quota: 0, free: 2, foreign: 0, failing: 0 };
    scheduler.tellFigures({
      pool: { build: scheduler.pool.build, train, waiting: 30 },
      projects: [aProject('vision', { allocated: 4 }), aProject('speech')],
      gpus: [{ node: 'n1', index: 1, ...use }],
      jobs: [
        {
          id: 'a',
          reason: 'Waits.',
          notice: '',
          position: 6,
          estimated_start: 5000,
          earliest_start: null,
          latest_start: null
        }
      ]
    });
    const state = await until(({ jobs }) => jobs.get('a')?.position === 6);
    expect(state.jobs.get('a')).toEqual(aJob('a', { reason: 'Waits.', position: 6, estimated_start: 5000 }));
    const nodes = [{ ...node, gpus: [gpu(0), { ...gpu(1), ...use }] }];
    expect(state.pool).toEqual({ ...scheduler.pool, train, waiting: 30, nodes });
    expect(state.projects.map(one => [one.name, one.allocated])).toEqual([
      ['vision', 4],
      ['speech', 0]
    ]);
    expect(scheduler.asked).toEqual([]);
  });

  it('reads all GPUs again after a change if all are shown, once for several changes', async () => {
    model.dispose();
    model = new PoolModel(scheduler, QUICK, true);
    model.start();
    await live();
    scheduler.asked.length = 0;
    scheduler.pool = { ...scheduler.pool, waiting: 30 };
    for (let i = 0; i < 30; i++) {
      scheduler.set(aJob(`j${i}`));
    }
    await until(state => state.pool?.waiting === 30);
    expect(scheduler.asked.filter(path => path === 'GET pool').length).toBeLessThanOrEqual(2);
  });

  it('reports the shown jobs, once for all elements', async () => {
    model.start();
    await live();
    const hide = model.show(['a', 'b']);
    model.show(['b', 'c']);
    await vi.waitFor(() => expect(scheduler.shows).toEqual([[], ['a', 'b', 'c']]));
    hide();
    await vi.waitFor(() => expect(scheduler.shows[2]).toEqual(['b', 'c']));
    scheduler.cut();
    await vi.waitFor(() => expect(scheduler.shows[3]).toEqual(['b', 'c']));
  });

  it('reads all lists again if it missed too many events, but not when it resumes', async () => {
    const lists = () => scheduler.asked.filter(path => path.startsWith('GET jobs')).length;
    model.start();
    await live();
    expect(lists()).toBe(2);
    scheduler.cut();
    await vi.waitFor(() => expect(scheduler.resumed).toEqual([null, '7']));
    scheduler.jobs.set('a', aJob('a'));
    scheduler.beginAnew();
    await until(state => state.jobs.has('a'));
    expect(lists()).toBe(4);
  });

  it('starts from the beginning when the scheduler has another store', async () => {
    model.start();
    await live();
    scheduler.store = 'store-2';
    scheduler.jobs.set('a', aJob('a'));
    scheduler.cut();
    await until(state => state.jobs.has('a'));
  });

  it('resumes after the last event when the stream ends, without an error', async () => {
    model.start();
    await live();
    const seen: string[] = [];
    model.stateChanged.connect((_, state) => seen.push(state.connection));
    scheduler.cut();
    scheduler.set(aJob('meanwhile'));
    await until(state => state.jobs.has('meanwhile'));
    expect(scheduler.resumed).toEqual([null, '7']);
    expect(new Set(seen)).toEqual(new Set(['live']));
  });

  it('reports that the scheduler is down, keeps its state, and recovers by itself', async () => {
    scheduler.jobs.set('a', aJob('a'));
    model.start();
    await live();
    scheduler.trouble = 'down';
    scheduler.cut();
    const lost = await until(state => state.connection === 'lost');
    expect(lost.problem).toContain('does not answer');
    expect(lost.jobs.has('a')).toBe(true);
    scheduler.trouble = null;
    expect((await live()).problem).toBeNull();
  });

  it.each<[[number, object | string], string]>([
    [
      [403, { detail: 'Your token lacks the scope custom:runai:read.' }],
      'Your token lacks the scope custom:runai:read.'
    ],
    [[502, '<html>Bad gateway</html>'], 'The scheduler of the GPU pool does not answer.'],
    [[403, ''], 'You do not have access to the GPU pool']
  ])('gives the reason of an answer %j', async (trouble, sentence) => {
    scheduler.trouble = trouble;
    model.start();
    expect((await until(state => state.connection === 'lost')).problem).toContain(sentence);
    scheduler.trouble = null;
    await live();
  });

  it('reconnects at once on request', async () => {
    model.dispose();
    model = new PoolModel(scheduler, { ...QUICK, firstDelay: 1e6 });
    scheduler.trouble = 'down';
    model.start();
    await until(state => state.connection === 'lost');
    scheduler.trouble = null;
    model.retry();
    await live();
  });

  it('waits for nothing once it is disposed', async () => {
    model.start();
    await live();
    const waits = vi.spyOn(window, 'addEventListener');
    model.dispose();
    await new Promise(resolve => setTimeout(resolve, 20));
    expect(waits).not.toHaveBeenCalledWith('online', expect.anything());
    waits.mockRestore();
  });

  it('reports once that a job of the caller ended', async () => {
    const ended: string[] = [];
    model.jobEnded.connect((_, job) => ended.push(job.id));
    scheduler.jobs.set('mine', aJob('mine', { state: 'running' }));
    scheduler.jobs.set('theirs', aJob('theirs', { state: 'running', mine: false }));
    model.start();
    await live();
    scheduler.set(aJob('theirs', { state: 'failed', mine: false }));
    scheduler.set(aJob('mine', { state: 'succeeded' }));
    scheduler.set(aJob('mine', { state: 'succeeded', reason: 'again' }));
    await until(state => state.jobs.get('mine')?.reason === 'again');
    expect(ended).toEqual(['mine']);
  });

  it('reports a job that ended while the scheduler was unreachable', async () => {
    const ended: string[] = [];
    model.jobEnded.connect((_, job) => ended.push(job.id));
    scheduler.jobs.set('mine', aJob('mine', { state: 'running' }));
    model.start();
    await live();
    scheduler.trouble = 'down';
    scheduler.cut();
    await until(state => state.connection === 'lost');
    scheduler.set(aJob('mine', { state: 'succeeded' }));
    scheduler.trouble = null;
    await until(state => state.jobs.get('mine')?.state === 'succeeded');
    await vi.waitFor(() => expect(ended).toEqual(['mine']));
  });

  it('removes a session that has ended', async () => {
    model.start();
    await live();
    scheduler.tell('session.state', 's2', { session: aSession('s2', { server: 'second' }) });
    await until(state => state.sessions.length === 2);
    scheduler.tell('session.state', 's1');
    scheduler.tell('session.state', 's2', { session: aSession('s2', { state: 'ended' }) });
    await until(state => state.sessions.length === 0);
  });

  it('shows the outcome of an action, and passes on a refusal', async () => {
    scheduler.jobs.set('a', aJob('a', { state: 'running' }));
    model.start();
    await live();
    await model.act('a', 'pause');
    expect(model.state.jobs.get('a')?.state).toBe('paused');
    await expect(model.act('nowhere', 'cancel')).rejects.toEqual(new PoolError('There is no job nowhere.', 404));
    scheduler.set(aJob('a', { state: 'cancelled' }));
    await model.act('a', 'delete');
    expect(scheduler.jobs.size).toBe(0);
    expect(model.state.jobs.size).toBe(0);
  });

  it('keeps the newer state of the stream when the response to an action arrives later', async () => {
    scheduler.jobs.set('a', aJob('a', { state: 'running' }));
    model.start();
    await live();
    const send = scheduler.send.bind(scheduler);
    scheduler.send = async (path, init) => {
      if (!path.endsWith('/cancel')) {
        return send(path, init);
      }
      scheduler.set(aJob('a', { state: 'cancelled' }));
      await until(state => state.jobs.get('a')?.state === 'cancelled');
      return new Response(JSON.stringify(aJob('a', { state: 'stopping' })));
    };
    await model.act('a', 'cancel');
    expect(model.state.jobs.get('a')?.state).toBe('cancelled');
  });

  it('closes the connection while the page is hidden, and resumes afterwards', async () => {
    model.start();
    await live();
    hide(true);
    await vi.waitFor(() => expect(scheduler.streams).toBe(0));
    scheduler.set(aJob('meanwhile'));
    hide(false);
    await until(state => state.jobs.has('meanwhile'));
    expect(scheduler.resumed).toEqual([null, '7']);
  });

  it('closes its stream when disposed', async () => {
    model.start();
    await live();
    model.dispose();
    await vi.waitFor(() => expect(scheduler.streams).toBe(0));
  });
});
