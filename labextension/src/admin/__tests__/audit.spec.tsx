import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, expect, it } from 'vitest';
import { Scheduler } from '../../__tests__/scheduler';
import type { AuditEntry } from '../../model/api';
import { Client } from '../../model/client';
import { AuditView } from '../audit';

afterEach(cleanup);

const entry: AuditEntry = {
  id: 1,
  at: 1000,
  user: null,
  action: 'change',
  kind: 'project',
  name: 'vision',
  before: { guaranteed: 2, members: [] },
  after: { guaranteed: 4, members: ['ada', 'ben'] }
};

it('shows who changed what, with old and new values, page by page', async () => {
  const scheduler = new Scheduler();
  scheduler.audit = [{ ...entry, id: 2, user: 'root', action: 'remove', name: 'nlp', after: null }, entry];
  render(<AuditView client={new Client(scheduler)} />);
  const removed = await screen.findByText('project nlp is removed.');
  expect(removed.closest('tr')!.textContent).toContain('root');
  fireEvent.click(screen.getByText('Show older changes'));
  const changed = await screen.findByText('project vision: guaranteed 2 → 4');
  expect(changed.closest('tr')!.textContent).toContain('pool file');
  expect(screen.getByText('project vision: members nobody → ada, ben')).toBeTruthy();
  expect(screen.queryByText('Show older changes')).toBeNull();
});

it('shows whose job or session an administrator stopped', async () => {
  const scheduler = new Scheduler();
  const job = { owner: 'ada', name: 'train.py', state: 'running' };
  scheduler.audit = [
    { ...entry, id: 2, user: 'root', kind: 'job', name: 'j-1', before: job, after: { state: 'cancelled' } },
    { ...entry, action: 'remove', kind: 'session', name: 's-1', before: { owner: 'ada', name: '' }, after: null }
  ];
  render(<AuditView client={new Client(scheduler)} />);
  await screen.findByText('job j-1: state running → cancelled (train.py of ada)');
  fireEvent.click(screen.getByText('Show older changes'));
  await screen.findByText('session s-1 is removed. (of ada)');
});

it('shows why the scheduler stopped an idle server', async () => {
  const scheduler = new Scheduler();
  const after = { reason: 'Its server was stopped after 1 h idle.' };
  scheduler.audit = [{ ...entry, action: 'remove', kind: 'session', name: 's-1', before: { owner: 'ada' }, after }];
  render(<AuditView client={new Client(scheduler)} />);
  const stopped = await screen.findByText('session s-1 is removed. (of ada) Its server was stopped after 1 h idle.');
  expect(stopped.closest('tr')!.textContent).toContain('scheduler');
});

it('shows that the GPUs of an idle server were lent, and why', async () => {
  const scheduler = new Scheduler();
  const session = { ...entry, kind: 'session', name: 's-1' } as const;
  const after = { gpus: 'lent', reason: 'Idle for 1 h.' };
  scheduler.audit = [{ ...session, before: { owner: 'ada', name: '', gpus: 'held' }, after }];
  render(<AuditView client={new Client(scheduler)} />);
  const lent = await screen.findByText('session s-1: GPUs held → lent (of ada) Idle for 1 h.');
  expect(lent.closest('tr')!.textContent).toContain('scheduler');
});

it('shows that a GPU has failed, and that it works again', async () => {
  const scheduler = new Scheduler();
  const [well, failing] = [{ failure: null }, { failure: 'Xid 79.' }];
  const gpu = { ...entry, kind: 'gpu', name: 'n1/2' } as const;
  scheduler.audit = [
    { ...gpu, id: 2, before: failing, after: well },
    { ...gpu, before: well, after: failing }
  ];
  render(<AuditView client={new Client(scheduler)} />);
  await screen.findByText('GPU n1/2 works again and gets work.');
  fireEvent.click(screen.getByText('Show older changes'));
  const failed = await screen.findByText('GPU n1/2 fails and gets no more work. Xid 79.');
  expect(failed.closest('tr')!.textContent).toContain('scheduler');
});

it('shows an error and tries again', async () => {
  const scheduler = new Scheduler();
  scheduler.trouble = [403, { detail: 'This needs the scope admin.' }];
  render(<AuditView client={new Client(scheduler)} />);
  await screen.findByText('This needs the scope admin.');
  scheduler.trouble = null;
  fireEvent.click(screen.getByText('Retry'));
  await screen.findByText('Nobody has changed the pool yet.');
});
