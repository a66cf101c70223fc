import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { aJob, aProject, aSession, Scheduler } from '../../__tests__/scheduler';
import { PoolModel } from '../pool';
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
  it('shows what there is', async () => {
    scheduler.jobs.set('a', aJob('a'));
    model.start();
    const state = await live();
    expect(state.me?.name).toBe('ada');
    expect(state.jobs.get('a')).toEqual(aJob('a'));
    expect(state.sessions).toEqual([aSession('s1')]);
  });

  it('follows a job from event to event', async () => {
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

  it('asks for nothing while nothing happens', async () => {
    model.start();
    await live();
    const asked = scheduler.asked.length;
    await new Promise(resolve => setTimeout(resolve, 50));
    expect(scheduler.asked.length).toBe(asked);
  });

  it('misses nothing that happens while it reads the pool', async () => {
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

  it('takes figures and places in line from the stream, and asks for none of them', async () => {
    scheduler.jobs.set('a', aJob('a', { position: 7 }));
    model.start();
    await live();
    scheduler.asked.length = 0;
    scheduler.set(aJob('b'));
    const train = { gpus: 6, allocated: 4, over_quota: 0, free: 2, foreign: 0 };
    scheduler.tellFigures({
      pool: { build: scheduler.pool.build, train, waiting: 30 },
      projects: [aProject('vision', { allocated: 4 }), aProject('speech')],
      jobs: [
        { id: 'a', reason: 'Waits.', position: 6, estimated_start: 5000, earliest_start: null, latest_start: null }
      ]
    });
    const state = await until(({ jobs }) => jobs.get('a')?.position === 6);
    expect(state.jobs.get('a')).toEqual(aJob('a', { reason: 'Waits.', position: 6, estimated_start: 5000 }));
    expect(state.pool).toEqual({ ...scheduler.pool, train, waiting: 30 });
    expect(state.projects.map(one => [one.name, one.allocated])).toEqual([
      ['vision', 4],
      ['speech', 0]
    ]);
    expect(scheduler.asked).toEqual([]);
  });

  it('reads every GPU again after a change where all are shown, once for many', async () => {
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

  it('says which jobs it shows, once for all that show any', async () => {
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

  it('reads all lists again when it has missed too much, and not when it goes on', async () => {
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

  it('begins anew when the scheduler has another store', async () => {
    model.start();
    await live();
    scheduler.store = 'store-2';
    scheduler.jobs.set('a', aJob('a'));
    scheduler.cut();
    await until(state => state.jobs.has('a'));
  });

  it('goes on after the last event when the stream ends, without a word', async () => {
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

  it('says in a sentence that the scheduler is down, keeps what it knew, and recovers by itself', async () => {
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

  it('tries again at once when asked to', async () => {
    model.dispose();
    model = new PoolModel(scheduler, { ...QUICK, firstDelay: 1e6 });
    scheduler.trouble = 'down';
    model.start();
    await until(state => state.connection === 'lost');
    scheduler.trouble = null;
    model.retry();
    await live();
  });

  it('tells once that a job of the caller has ended', async () => {
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

  it('tells of a job that ended while the scheduler could not be reached', async () => {
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

  it('drops a session that has ended', async () => {
    model.start();
    await live();
    scheduler.tell('session.state', 's2', { session: aSession('s2', { server: 'second' }) });
    await until(state => state.sessions.length === 2);
    scheduler.tell('session.state', 's1');
    scheduler.tell('session.state', 's2', { session: aSession('s2', { state: 'ended' }) });
    await until(state => state.sessions.length === 0);
  });

  it('shows the outcome of what the user does, and passes a refusal on', async () => {
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

  it('lets go of the line while nobody looks, and goes on where it was', async () => {
    model.start();
    await live();
    hide(true);
    await vi.waitFor(() => expect(scheduler.streams).toBe(0));
    scheduler.set(aJob('meanwhile'));
    hide(false);
    await until(state => state.jobs.has('meanwhile'));
    expect(scheduler.resumed).toEqual([null, '7']);
  });

  it('leaves nothing behind when it is disposed', async () => {
    model.start();
    await live();
    model.dispose();
    await vi.waitFor(() => expect(scheduler.streams).toBe(0));
  });
});
