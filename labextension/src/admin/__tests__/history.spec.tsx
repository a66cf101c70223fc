import { cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Scheduler } from '../../__tests__/scheduler';
import type { PoolPoint } from '../../model/api';
import { Client } from '../../model/client';
import { History, lineOf } from '../history';

const NOW = Date.UTC(2026, 2, 30, 12, 30) / 1000;

beforeEach(() => {
  vi.spyOn(Date, 'now').mockReturnValue(1000 * NOW);
});

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

function point(start: number, more: Partial<PoolPoint> = {}): PoolPoint {
  const measured = { used: null, idle: null, queued: 3, starts: 0, mean_wait: null, longest_wait: 0 };
  return { start, allocated: 4, ...measured, ...more };
}

function show(points: PoolPoint[]): Scheduler {
  const scheduler = new Scheduler();
  scheduler.poolHistory = { since: NOW - 3600, until: NOW, step: 60, points };
  render(<History client={new Client(scheduler)} total={8} />);
  return scheduler;
}

it('draws GPUs, the queue and waits, and reads another span in its own resolution', async () => {
  const scheduler = show([
    point(NOW - 120, { used: 3, idle: 1, starts: 2, mean_wait: 60, longest_wait: 90 }),
    point(NOW - 60, { used: 2.5, idle: 1.5, queued: 7 })
  ]);
  await screen.findByRole('img', { name: 'Allocated GPUs from 4 GPUs to 4 GPUs' });
  screen.getByRole('img', { name: 'Jobs in the queue from 3 to 7' });
  screen.getByRole('img', { name: /^Wait of the jobs that started from 1.min to 1.min$/ });
  const lines = screen.getAllByRole('listitem').map(item => item.textContent!.replace('\u00a0', ' '));
  expect(lines).toEqual([
    'allocated4 GPUs',
    'used2.5 GPUs',
    'allocated but idle1.5 GPUs',
    'average1 min',
    'longest1 min'
  ]);
  fireEvent.change(screen.getByLabelText('Span'), { target: { value: 'hour' } });
  await vi.waitFor(() => expect(scheduler.asked.at(-1)).toBe(`GET pool/history?since=${NOW - 3600}&points=60`));
});

it('draws nothing that was not recorded', async () => {
  show([point(NOW - 60, { allocated: 0, queued: null })]);
  const card = await screen.findByRole('region', { name: 'Over time' });
  expect(within(card).getAllByRole('img')).toHaveLength(1);
  expect(within(card).queryByText('used')).toBeNull();
  const history = { since: 0, until: 120, step: 60, points: [point(0, { queued: null }), point(60)] };
  expect(lineOf(history, 'queued')).toEqual([{ at: 60, value: 3 }]);
});

it('says so when there is no record yet', async () => {
  show([]);
  await screen.findByText('Nothing was recorded in this time.');
});
