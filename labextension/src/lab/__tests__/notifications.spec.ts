/** What JupyterLab's notifications say about the user's jobs and idle servers. */
import { Notification } from '@jupyterlab/apputils';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Signal } from '@lumino/signaling';
import { act, waitFor } from '@testing-library/react';
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { expect, it } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import { aSession } from '../../__tests__/views';
import type { JobView, SessionView } from '../../model/api';
import { clock } from '../../model/format';
import { PoolModel } from '../../model/pool';
import { notificationsPlugin } from '../notifications';
import type { IJobActions } from '../tokens';

it('warns that my idle server will be stopped, and withdraws that when it is used', async () => {
  const scheduler = new Scheduler();
  const model = new PoolModel(scheduler, { firstDelay: 1, longestDelay: 1, gather: 1, figures: 1 });
  await notificationsPlugin.activate({} as JupyterFrontEnd, model, {} as IJobActions, null, null);
  await act(async () => model.start());
  const texts = () => Notification.manager.notifications.map(one => one.message);
  const told = (id: string, user: string, stops_at: number | null) =>
    scheduler.tell('session.state', id, { session: aSession(id, { user, stops_at }) });

  const stops = Date.now() / 1000 + 600;
  told('s2', 'ben', stops);
  told('s1', 'ada', stops);
  const at = clock(stops, Date.now() / 1000);
  await waitFor(() => expect(texts()).toEqual([`Your server is idle. It stops at ${at} unless you use it.`]));
  told('s1', 'ada', null);
  await waitFor(() => expect(texts()).toEqual([]));
  const idle = async (change: Partial<SessionView>, text: string) => {
    scheduler.tell('session.state', 's1', { session: aSession('s1', { user: 'ada', ...change }) });
    await waitFor(() => expect(texts()).toEqual([text]));
  };
  const lends_at = stops - 300;
  const then = clock(lends_at, Date.now() / 1000);
  const end = `It stops at ${at} unless you use it.`;
  await idle(
    { stops_at: stops, stops_because: 'idle', lends_at },
    `Your server is idle. Its GPUs are lent to jobs at ${then} until you use it again. ${end}`
  );
  const lent = { stops_at: stops, stops_because: 'idle' as const, lent_since: lends_at };
  await idle(lent, `Your server is idle, and its GPUs have been lent to jobs since ${then}. ${end}`);
  await idle(
    { ...lent, stops_at: null, recalled_since: lends_at },
    'Your server gets its GPUs back as soon as the job on them has saved and stopped.'
  );
  await idle(
    { stops_at: stops, takes_back: true, server: 'lab' },
    `Your server lab is idle. Its GPUs are taken back and its kernels shut down at ${at} unless you use it.`
  );
  await idle(
    { taken_since: lends_at, gpus: 0 },
    `Your server was idle, and its GPUs were taken back at ${then}. Its kernels were shut down. Restart the server to get GPUs.`
  );
  const longest = aSession('s1', { user: 'ada', stops_at: stops, stops_because: 'max_duration' });
  scheduler.tell('session.state', 's1', { session: longest });
  const text = `Your server stops at ${at} because it reaches its time limit. Save your work before then.`;
  await waitFor(() => expect(texts()).toEqual([text]));
  told('s1', 'ada', null);
  await waitFor(() => expect(texts()).toEqual([]));
  model.dispose();
});

it('warns that my kernels use more GPU memory than my part, and tells what was ended', async () => {
  const scheduler = new Scheduler();
  const model = new PoolModel(scheduler, { firstDelay: 1, longestDelay: 1, gather: 1, figures: 1 });
  await notificationsPlugin.activate({} as JupyterFrontEnd, model, {} as IJobActions, null, null);
  await act(async () => model.start());
  const texts = () => Notification.manager.notifications.map(one => one.message);
  const told = (id: string, user: string, memory_warning: string) =>
    scheduler.tell('session.state', id, { session: aSession(id, { user, memory_warning }) });

  told('s2', 'ben', 'The kernels use 9 GiB of GPU memory; 8 GiB were given.');
  told('s1', 'ada', 'The kernels use 12 GiB of GPU memory; 8 GiB were given.');
  await waitFor(() => expect(texts()).toEqual(['The kernels use 12 GiB of GPU memory; 8 GiB were given.']));
  told('s1', 'ada', 'Process 42 was ended.');
  await waitFor(() => expect(texts()).toEqual(['Process 42 was ended.']));
  told('s1', 'ada', '');
  await waitFor(() => expect(texts()).toEqual([]));
  model.dispose();
});

it('notifies me of the successes that my settings choose, as soon as I change them', async () => {
  const scheduler = new Scheduler();
  const model = new PoolModel(scheduler, { firstDelay: 1, longestDelay: 1, gather: 1, figures: 1 });
  const settings = { composite: {}, changed: null as unknown as Signal<object, void> };
  settings.changed = new Signal<object, void>(settings);
  const registry = { load: async () => settings } as unknown as ISettingRegistry;
  await notificationsPlugin.activate({} as JupyterFrontEnd, model, {} as IJobActions, registry, null);
  await act(async () => model.start());
  const texts = () => Notification.manager.notifications.map(one => one.message.replaceAll('\u00a0', ' '));
  const ends = async (name: string, state: 'succeeded' | 'failed', minutes: number) => {
    const job = aJob(name, { name, state: 'running', submitted: 1000 });
    scheduler.set(job);
    await waitFor(() => expect(model.state.jobs.get(name)?.state).toBe('running'));
    scheduler.set({ ...job, state, ended: 1000 + minutes * 60 });
    await waitFor(() => expect(model.state.jobs.get(name)?.state).toBe(state));
  };
  const choose = (composite: object) => {
    settings.composite = composite;
    settings.changed.emit();
  };

  await ends('quick', 'succeeded', 0.25);
  choose({ jobsThatEnd: true, jobsThatSucceed: true, shortestSuccess: 10 });
  await ends('long', 'succeeded', 10);
  await ends('shorter', 'succeeded', 9);
  choose({ jobsThatEnd: false, jobsThatSucceed: true, shortestSuccess: 0 });
  await ends('off', 'failed', 60);
  choose({ jobsThatEnd: true, jobsThatSucceed: false, shortestSuccess: 0 });
  await ends('silent', 'succeeded', 60);
  await ends('broken', 'failed', 1);
  expect(texts().sort()).toEqual([expect.stringMatching(/^broken failed/), 'long succeeded after 10 min.']);
  model.dispose();
});

it('tells me why my job is paused and when it resumes, until it runs again', async () => {
  const scheduler = new Scheduler();
  const model = new PoolModel(scheduler, { firstDelay: 1, longestDelay: 1, gather: 1, figures: 1, shows: 1 });
  const settings = { composite: {}, changed: null as unknown as Signal<object, void> };
  settings.changed = new Signal<object, void>(settings);
  const registry = { load: async () => settings } as unknown as ISettingRegistry;
  Notification.manager.dismiss();
  await notificationsPlugin.activate({} as JupyterFrontEnd, model, {} as IJobActions, registry, null);
  await act(async () => model.start());
  const texts = () => Notification.manager.notifications.map(one => one.message);
  const attempt = { number: 1, created: 1000, started: 1000, stopping: null, ended: null, workers: [], exit_codes: [] };
  const ran: JobView['attempts'] = [{ ...attempt, reason: 'Project due reclaims GPUs for j2.', ending: 'preempted' }];
  const puts = async (job: JobView) => {
    scheduler.set(job);
    await waitFor(() => expect(model.state.jobs.get(job.id)).toEqual(job));
  };
  const [mine, theirs] = [aJob('a', { name: 'train' }), aJob('b', { mine: false })];
  await puts({ ...mine, state: 'running' });
  await puts({ ...theirs, state: 'running' });
  await puts({ ...theirs, state: 'stopping', attempts: ran });

  await puts({ ...mine, state: 'stopping', attempts: ran });
  const paused = 'train is being paused: Project due reclaims GPUs for j2. It resumes when GPUs are free again.';
  expect(texts()).toEqual([paused]);
  await waitFor(() => expect(scheduler.shows.at(-1)).toEqual(['a'])); // the estimate is kept up to date
  const start = Date.now() / 1000 + 3600;
  await puts({ ...mine, state: 'queued', attempts: ran, estimated_start: start });
  const at = clock(start, Date.now() / 1000);
  expect(texts()).toEqual([`train was paused: Project due reclaims GPUs for j2. It resumes at about ${at}.`]);
  await puts({ ...mine, state: 'starting', attempts: [...ran, { ...ran[0]!, number: 2, ending: null }] });
  expect(texts()).toHaveLength(1);
  await puts({ ...mine, state: 'running', attempts: [...ran, { ...ran[0]!, number: 2, ending: null }] });
  expect(texts()).toEqual(['train is running again.']);
  await waitFor(() => expect(scheduler.shows.at(-1)).toEqual([]));

  Notification.manager.dismiss();
  await puts({ ...mine, state: 'stopping', reason: 'Pausing by ben.' });
  expect(texts()).toEqual(['train is being paused by ben.']);
  await puts({ ...mine, state: 'paused', reason: 'Paused by ben; resume it to queue it again.' });
  expect(texts()).toEqual(['train was paused by ben. It waits until it is resumed.']);
  await puts({ ...mine, state: 'cancelled', reason: 'Cancelled.' });
  expect(texts()).toEqual([]);

  const warning = 'Will be paused at 09:00 for project class.';
  const w: JobView = { ...mine, id: 'w', state: 'running' };
  await puts(w);
  await puts({ ...w, notice: `It uses 9 GiB of GPU memory. ${warning}` });
  expect(texts()).toEqual([`train: ${warning}`]);
  await puts({ ...w, notice: `${warning} It was asked to save its state.` });
  expect(texts()).toEqual([`train: ${warning} It was asked to save its state.`]);
  await puts(w);
  expect(texts()).toEqual([]); // the warning was withdrawn; the job has run all the time
  await puts({ ...w, notice: warning });
  Notification.manager.dismiss();
  await puts({ ...w, state: 'stopping', attempts: ran });
  expect(texts()).toEqual([paused]);
  await puts({ ...w, state: 'cancelled', reason: 'Cancelled.' });

  settings.composite = { jobsThatPause: false };
  settings.changed.emit();
  await puts({ ...mine, id: 'c', state: 'running' });
  await puts({ ...mine, id: 'c', state: 'running', notice: warning });
  await puts({ ...mine, id: 'c', state: 'stopping', attempts: ran });
  expect(texts()).toEqual([]);
  model.dispose();
});
