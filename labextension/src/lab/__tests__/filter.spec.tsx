/** The panel's filter with JupyterLab's own search box. */
import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, expect, it } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import { Panel } from '../../components/panel';
import { PoolModel } from '../../model/pool';
import { plain } from '../../trans';
import { filterBox } from '../filter';

afterEach(cleanup);

const names = () => [...document.querySelectorAll('.runai-Job .runai-Name')].map(name => name.textContent).sort();

it('does not filter after it is closed, although the box reports its text again when it loses the focus', async () => {
  const scheduler = new Scheduler();
  scheduler.jobs.set('a', aJob('a')).set('b', aJob('b'));
  const model = new PoolModel(scheduler, { gather: 1 });
  const actions = { act: () => Promise.resolve() };
  render(
    <Panel model={model} actions={actions} server={null} onNewJob={() => undefined} filterBox={filterBox(plain)} />
  );
  await act(async () => model.start());
  fireEvent.click(await screen.findByRole('button', { name: 'Filter the jobs' }));
  const box = document.querySelector<HTMLInputElement>('jp-search.jp-FilterBox')!;
  await waitFor(() => expect(box.shadowRoot!.querySelector('input')).toBeTruthy());
  const input = box.shadowRoot!.querySelector('input')!;
  // Browsers fire a change event when the focus leaves; jsdom does not.
  input.addEventListener('blur', () => input.dispatchEvent(new Event('change')));

  await act(async () => {
    input.value = 'job-b';
    input.dispatchEvent(new InputEvent('input', { bubbles: true, composed: true }));
  });
  await waitFor(() => expect(names()).toEqual(['job-b']));
  await act(async () => {
    input.focus();
    fireEvent.keyDown(box, { key: 'Escape' });
  });
  expect(document.querySelector('jp-search')).toBeNull();
  expect(names()).toEqual(['job-a', 'job-b']);
  act(() => scheduler.set(aJob('c')));
  await waitFor(() => expect(names()).toEqual(['job-a', 'job-b', 'job-c']));
  model.dispose();
});
