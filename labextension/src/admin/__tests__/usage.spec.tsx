import { act, cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Scheduler } from '../../__tests__/scheduler';
import type { UsageRow } from '../../model/api';
import { Client } from '../../model/client';
import { niceCeiling } from '../barchart';
import { periodsOf, spanOf } from '../spans';
import { UsageView } from '../usage';

const NOW = Date.UTC(2026, 2, 30, 12, 30) / 1000;
const DAY = 86_400;
const TODAY = Date.UTC(2026, 2, 30) / 1000;

beforeEach(() => {
  vi.spyOn(Date, 'now').mockReturnValue(1000 * NOW);
});

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

function row(project: string, start: number, gpu_hours: number, more: Partial<UsageRow> = {}): UsageRow {
  return {
    start,
    environment: null,
    project,
    user: null,
    gpu_type: null,
    gpu_hours,
    measured_gpu_hours: 0,
    idle_gpu_hours: 0,
    starts: 1,
    mean_wait: 60,
    longest_wait: 60,
    reclaims: 0,
    lost_gpu_hours: 0,
    ...more
  };
}

function cells(name: string): (string | null)[] {
  return [...screen.getByRole('row', { name: new RegExp(name) }).querySelectorAll('td')].map(cell => cell.textContent);
}

it('draws each period and shows the totals in a table, largest first', async () => {
  const scheduler = new Scheduler();
  scheduler.usage = [
    row('nlp', TODAY - DAY, 2),
    row('vision', TODAY - DAY, 10, { starts: 3, mean_wait: 120, longest_wait: 300 }),
    row('vision', TODAY, 30, { measured_gpu_hours: 20, idle_gpu_hours: 5, reclaims: 2, lost_gpu_hours: 0.5 }),
    row('', TODAY, 4, { starts: 0, mean_wait: null, longest_wait: 0 })
  ];
  const { container } = render(<UsageView client={new Client(scheduler)} admin={false} />);
  await screen.findByRole('table');
  const names = screen.getAllByRole('rowheader').map(header => header.textContent);
  expect(names).toEqual(['vision', 'notebooks', 'nlp']);
  expect(cells('vision')).toEqual(['40', '25%', '4', '1\u00a0min', '5\u00a0min', '2', '0.5'].map(text => text));
  expect(cells('notebooks').slice(0, 4)).toEqual(['4', '–', '0', '–']);
  expect(screen.getByRole('img', { name: 'GPU-hours: 46 (times are UTC)' })).toBeTruthy();
  const bars = container.querySelectorAll('svg g');
  expect(bars).toHaveLength(30);
  expect(bars[29]!.querySelector('title')!.textContent).toBe('Mar 30: 34\nvision 30\nnotebooks 4');
  expect(bars[29]!.querySelectorAll('[data-series]')).toHaveLength(2);
  fireEvent.change(screen.getByLabelText('Show'), { target: { value: 'reclaims' } });
  expect(screen.getByRole('img', { name: /^Reclaims: 2/ })).toBeTruthy();
});

it('reads the usage again for another span or group', async () => {
  const scheduler = new Scheduler();
  render(<UsageView client={new Client(scheduler)} admin={false} />);
  await screen.findByText('Nothing was used in this time.');
  fireEvent.change(screen.getByLabelText('Span'), { target: { value: 'last-month' } });
  fireEvent.change(screen.getByLabelText('By'), { target: { value: 'user' } });
  await act(async () => undefined);
  const [since, until] = [Date.UTC(2026, 1, 1) / 1000, Date.UTC(2026, 2, 1) / 1000];
  expect(scheduler.asked.at(-1)).toBe(`GET usage?since=${since}&until=${until}&every=day&by=user`);
});

it('shows an error and tries again', async () => {
  const scheduler = new Scheduler();
  scheduler.trouble = [503, { detail: 'The state could not be read; try again.', status: 503 }];
  render(<UsageView client={new Client(scheduler)} admin={false} />);
  await screen.findByText('The state could not be read; try again.');
  scheduler.trouble = null;
  scheduler.usage = [row('vision', TODAY, 1)];
  fireEvent.click(screen.getByText('Retry'));
  await screen.findByRole('table');
  expect(screen.queryByRole('alert')).toBeNull();
});

it('splits a span into periods', () => {
  expect(periodsOf(spanOf('day', NOW))).toHaveLength(24);
  expect(periodsOf(spanOf('last-month', NOW))).toHaveLength(28);
  expect(periodsOf(spanOf('this-month', NOW)).at(-1)).toBe(TODAY);
  expect(periodsOf(spanOf('year', NOW)).map(start => new Date(1000 * start).getUTCDate())).toEqual(Array(13).fill(1));
  expect([0, 0.3, 1, 7, 46, 1200].map(niceCeiling)).toEqual([1, 0.5, 1, 10, 50, 2000]);
});
