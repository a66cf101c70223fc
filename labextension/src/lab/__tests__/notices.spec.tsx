/** The choice of notices in JupyterLab's own dialog. */
import { act, cleanup, configure, fireEvent, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Scheduler } from '../../__tests__/scheduler';
import { Client } from '../../model/client';
import { Notices } from '../../model/notices';
import { plain } from '../../trans';
import { noticesDialog } from '../notices';

configure({ defaultHidden: true }); // jsdom treats a dialog that JupyterLab shows by CSS as closed

let scheduler: Scheduler;

async function open(): Promise<void> {
  const client = new Client(scheduler);
  const notices = new Notices(client, await client.notices());
  await act(async () => void noticesDialog(notices, plain));
  await screen.findByLabelText('Send notices by');
}

const field = (name: string) => screen.getByLabelText<HTMLInputElement>(name);
const write = (name: string, value: string) => fireEvent.change(field(name), { target: { value } });
const press = (name: string) => act(async () => void fireEvent.click(screen.getByRole('button', { name })));

beforeEach(() => {
  scheduler = new Scheduler();
});

afterEach(async () => {
  if (document.querySelector('.jp-Dialog')) {
    await press('Close');
  }
  cleanup();
});

it('asks for nothing else where there is no channel', async () => {
  await open();
  expect(field('Send notices by').value).toBe('none');
  expect(screen.queryByRole('checkbox')).toBeNull();
  await press('Save');
  expect(document.querySelector('.jp-Dialog')).toBeNull();
  expect(scheduler.chosen).toMatchObject([{ channel: 'none', address: null }]);
});

it('stays open with the reason at the field that is refused', async () => {
  await open();
  write('Send notices by', 'slack');
  await press('Save');
  const url = field('URL of the webhook');
  expect(document.getElementById(url.getAttribute('aria-describedby')!)!.textContent).toBe(
    'This is no URL of a webhook; it begins with https://.'
  );
  expect(document.activeElement).toBe(url);
  write('URL of the webhook', ' https://hooks.example.org/T0/secret ');
  expect(url.getAttribute('aria-invalid')).toBe('false');
  fireEvent.click(field('is cancelled by others'));
  write('Shortest successful job (minutes)', '1.5');
  await press('Save');
  expect(document.querySelector('.jp-Dialog')).toBeNull();
  expect(scheduler.chosen.at(-1)).toEqual({
    channel: 'slack',
    address: 'https://hooks.example.org/T0/secret',
    events: ['failed', 'succeeded', 'warned', 'paused', 'resumed'],
    shortest_success: 90
  });
});

it('keeps a secret that it does not show, and sends a test', async () => {
  scheduler.notices = { ...scheduler.notices, channel: 'teams', address: 'https://hooks.example.org/…' };
  await open();
  expect(field('URL of the webhook')).toMatchObject({ value: '', placeholder: 'https://hooks.example.org/…' });
  await press('Save and send a test');
  expect(screen.getByRole('status').textContent).toBe('The test notice was accepted.');
  expect(scheduler.chosen).toMatchObject([{ channel: 'teams', address: null }]);
  fireEvent.click(field('fails'));
  expect(screen.getByRole('status').textContent).toBe('');
  write('Send notices by', 'webhook');
  expect(field('URL of the webhook').placeholder).toBe('');
});

it('shows an e-mail address, and why the last notices were not delivered', async () => {
  const problem = 'The mail server cannot be used.';
  scheduler.notices = { ...scheduler.notices, channel: 'email', address: 'ada@example.org', problem, waiting: 2 };
  await open();
  expect(field('E-mail address').value).toBe('ada@example.org');
  expect(screen.getByRole('status').textContent).toBe(`${problem} 2 notices have not been delivered yet.`);
  await press('Close');
  expect(scheduler.chosen).toEqual([]);
});
