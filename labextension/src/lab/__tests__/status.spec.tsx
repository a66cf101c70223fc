/** The pool in JupyterLab's own status bar. */
import { StatusBar } from '@jupyterlab/statusbar';
import { Widget } from '@lumino/widgets';
import { act, fireEvent, waitFor } from '@testing-library/react';
import type { JupyterFrontEnd } from '@jupyterlab/application';
import { expect, it } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import { PoolModel } from '../../model/pool';
import { statusPlugin } from '../status';
import { PANEL_ID } from '../tokens';

it('shows my jobs and the free GPUs while connected, and opens the panel', async () => {
  const scheduler = new Scheduler();
  scheduler.jobs.set('a', aJob('a', { state: 'running' })).set('b', aJob('b', { state: 'running', mine: false }));
  const model = new PoolModel(scheduler, { firstDelay: 1, longestDelay: 1, gather: 1, figures: 1 });
  const bar = new StatusBar();
  Widget.attach(bar, document.body);
  const opened: string[] = [];
  const app = { shell: { activateById: (id: string) => opened.push(id) } } as unknown as JupyterFrontEnd;
  await act(async () => {
    await statusPlugin.activate(app, model, bar, null);
  });
  const item = () => document.querySelector<HTMLElement>('.jp-StatusBar-Item')!;
  expect(item().classList).toContain('lm-mod-hidden');

  await act(async () => model.start());
  await waitFor(() => expect(item().textContent).toMatch(/^1 running · .* free$/));
  expect(item().classList).not.toContain('lm-mod-hidden');
  act(() => scheduler.set(aJob('a', { state: 'stopping' })));
  act(() => scheduler.set(aJob('c', { state: 'queued' })));
  await waitFor(() => expect(item().textContent).toMatch(/^1 stopping · 1 waiting · .* free$/));
  fireEvent.click(item().querySelector('button')!);
  expect(opened).toEqual([PANEL_ID]);
  bar.dispose();
  model.dispose();
});
