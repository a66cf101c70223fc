import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Scheduler } from '../../__tests__/scheduler';
import type { GpuMeasures, GpuPoint, GpuView, NodeView } from '../../model/api';
import { PoolModel } from '../../model/pool';
import { PoolPage } from '../page';

beforeEach(() => {
  location.hash = '#nodes';
});

afterEach(() => {
  cleanup();
  location.hash = '';
});

const node: NodeView = {
  name: 'n1',
  node_pool: 'train',
  environment: 'train',
  gpu_type: 'A100',
  schedulable: true,
  drained: null,
  gpu_parts: 0,
  isolation: 'watcher',
  declared: false,
  gpus: []
};

async function page(
  admin: boolean,
  prepare: (scheduler: Scheduler) => void = () => {}
): Promise<[Scheduler, PoolModel]> {
  const scheduler = new Scheduler();
  scheduler.me = { ...scheduler.me, admin };
  scheduler.pool = { ...scheduler.pool, nodes: [node, { ...node, name: 'n2', schedulable: false }] };
  prepare(scheduler);
  const model = new PoolModel(scheduler, { gather: 1, figures: 1 }, true);
  render(<PoolPage model={model} />);
  await act(async () => model.start());
  await screen.findByRole('region', { name: 'Nodes' });
  return [scheduler, model];
}

it('drains a node with a reason and undrains it', async () => {
  const [scheduler, model] = await page(true);
  fireEvent.click(screen.getByRole('button', { name: 'Drain n1' }));
  fireEvent.change(await screen.findByLabelText('Reason'), { target: { value: 'ECC errors' } });
  fireEvent.click(screen.getByText('Drain'));
  await screen.findByText('drained: ECC errors');
  fireEvent.click(screen.getByRole('button', { name: 'Return n1' }));
  await waitFor(() => expect(scheduler.pool.nodes[0]!.drained).toBeNull());
  await screen.findByText('takes work');
  model.dispose();
});

it('keeps the typed reason when draining is refused', async () => {
  const [scheduler, model] = await page(true);
  fireEvent.click(screen.getByRole('button', { name: 'Drain n1' }));
  fireEvent.change(await screen.findByLabelText('Reason'), { target: { value: 'ECC errors' } });
  scheduler.trouble = [503, { detail: 'The disk is full.', status: 503 }];
  fireEvent.click(screen.getByText('Drain'));
  await screen.findByText('The disk is full.');
  expect(screen.getByLabelText<HTMLInputElement>('Reason').value).toBe('ECC errors');
  scheduler.trouble = null;
  fireEvent.click(screen.getByText('Drain'));
  await screen.findByText('drained: ECC errors');
  model.dispose();
});

it('moves a node to another node pool after a preview', async () => {
  const [scheduler, model] = await page(true);
  scheduler.previewed = {
    preview: true,
    changes: [
      { action: 'change', kind: 'pool', name: 'pool', before: { 'moved.n1': null }, after: { 'moved.n1': 'old' } }
    ],
    effects: [{ action: 'start', project: 'vision', jobs: 1, gpus: 2, ids: ['j1'] }],
    warnings: ['1 job holds GPUs of n1 and keeps them until it ends.']
  };
  fireEvent.click(screen.getByRole('button', { name: 'Move n1' }));
  const pools = await screen.findByLabelText<HTMLSelectElement>('Node pool');
  expect([...pools.options].map(option => option.text)).toEqual(['build', 'old (train)']);
  fireEvent.change(pools, { target: { value: 'old' } });
  scheduler.trouble = [409, { detail: 'The build quotas would not fit.', status: 409 }];
  fireEvent.click(screen.getByText('Review the change'));
  await screen.findByText('The build quotas would not fit.');
  scheduler.trouble = null;
  fireEvent.click(screen.getByText('Review the change'));
  await screen.findByText('n1 moves to the node pool old.');
  await screen.findByText('1 job holds GPUs of n1 and keeps them until it ends.');
  expect(scheduler.pool.nodes[0]!.node_pool).toBe('train');
  fireEvent.click(screen.getByText('Apply'));
  await waitFor(() => expect(screen.queryByRole('dialog')).toBeNull());
  await waitFor(() => expect(scheduler.pool.nodes[0]!.node_pool).toBe('old'));
  expect(scheduler.asked.filter(request => request.includes('node-pool'))).toEqual([
    'PUT nodes/n1/node-pool?preview=true',
    'PUT nodes/n1/node-pool?preview=true',
    'PUT nodes/n1/node-pool'
  ]);
  model.dispose();
});

it('shows drained nodes, and offers no actions without the permission', async () => {
  const [, model] = await page(false);
  expect(screen.getByText('takes no new work')).toBeTruthy();
  expect(screen.queryByRole('button', { name: 'Drain n1' })).toBeNull();
  model.dispose();
});

const gpu: GpuView = {
  index: 0,
  memory_gib: 80,
  used_memory_gib: 1,
  utilisation: 0.37,
  declared: false,
  foreign: 1,
  failure: 'Xid 79: GPU has fallen off the bus.',
  slowness: 2.24,
  occupants: []
};

const measures: GpuMeasures = {
  index: 0,
  failure: gpu.failure,
  utilisation: 0.37,
  memory_gib: 80,
  used_memory_gib: 1,
  power_watts: 250,
  temperature: 61,
  throttle_reasons: ['power_cap', 'application_clocks'],
  corrected_errors: 2,
  uncorrected_errors: 0,
  processes: [{ pid: 1, memory_gib: 1, kind: null, id: null, user: null }]
};

const point = (start: number, utilisation: number, xid: number | null = null): GpuPoint => ({
  start,
  utilisation,
  most_utilisation: utilisation,
  used_memory_gib: 40,
  power_watts: 100,
  temperature: 50,
  most_temperature: 50,
  slowed: 0.5,
  throttle_reasons: ['power_cap'],
  corrected_errors: 1,
  uncorrected_errors: 0,
  xid
});

it('shows what a GPU reports, why it gets no work, and its history, with gaps where it was not measured', async () => {
  const [scheduler, model] = await page(true, scheduler => {
    scheduler.pool = { ...scheduler.pool, nodes: [{ ...node, gpus: [gpu] }] };
    scheduler.gpus = { node: 'n1', measured: true, declared: false, isolation: 'watcher', gpus: [measures] };
    const points = [point(0, 0), point(10, 0.5), point(1800, 1, 79), point(1810, 0)];
    scheduler.history = { ...scheduler.history, points };
  });
  fireEvent.click(screen.getByRole('button', { name: 'n1' }));
  await screen.findByText('Gets no work. Xid 79: GPU has fallen off the bus.');
  await screen.findByText('GPU sharing: Work that uses more GPU memory than its part is warned and then ended.');
  await screen.findByText('37% · 1 of 80 GiB · 250 W · 61 °C');
  await screen.findByText('2.2 × slower than GPUs of its type');
  await screen.findByText('slowed down now: power cap · 2 corrected memory errors · 1 process outside the pool');
  await screen.findByText(/^slowed down 50% of the time: power cap · 4 corrected memory errors · Xid 79 at /);
  const lines = [...document.querySelectorAll('.runai-LineChart polyline')].map(line => line.getAttribute('points'));
  expect(lines).toEqual(['0.00,100.00 0.28,50.00', '50.00,0.00 50.28,100.00']);
  fireEvent.change(screen.getByLabelText('Show'), { target: { value: 'used_memory_gib' } });
  await screen.findByText(/^40 GiB at /);
  fireEvent.change(screen.getByLabelText('Span'), { target: { value: 'month' } });
  await waitFor(() => {
    const since = Number(/since=(\d+)/.exec(scheduler.asked.at(-1)!)?.[1]);
    expect(Date.now() / 1000 - since).toBeGreaterThan(29 * 86_400);
  });
  model.dispose();
});

it('reads what a GPU reports again when an event says that its use has changed', async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true });
  const [scheduler, model] = await page(true, scheduler => {
    scheduler.pool = { ...scheduler.pool, nodes: [{ ...node, gpus: [gpu] }] };
    scheduler.gpus = { node: 'n1', measured: true, declared: false, isolation: 'watcher', gpus: [measures] };
  });
  fireEvent.click(screen.getByRole('button', { name: 'n1' }));
  await screen.findByText('37% · 1 of 80 GiB · 250 W · 61 °C');
  scheduler.gpus = { ...scheduler.gpus, gpus: [{ ...measures, utilisation: 0.9, power_watts: 400 }] };
  const asked = () => scheduler.asked.filter(path => path.endsWith('nodes/n1/gpus')).length;
  const before = asked();
  await act(() => vi.advanceTimersByTimeAsync(20_000));
  expect(asked()).toBe(before);
  act(() => scheduler.tellFigures({ gpus: [{ node: 'n1', index: 0, utilisation: 0.9, used_memory_gib: 1 }] }));
  await screen.findByText('90% · 1 of 80 GiB · 400 W · 61 °C');
  model.dispose();
  vi.useRealTimers();
});

it('says that the use of declared GPUs is not measured', async () => {
  const [scheduler, model] = await page(false, scheduler => {
    scheduler.pool = {
      ...scheduler.pool,
      nodes: [{ ...node, declared: true, gpus: [{ ...gpu, failure: null, foreign: 0 }] }]
    };
  });
  fireEvent.click(screen.getByRole('button', { name: 'n1' }));
  await screen.findByText(/^These GPUs are declared/);
  await screen.findByText('free');
  expect(screen.queryByLabelText('Span')).toBeNull();
  expect(scheduler.asked.filter(asked => asked.includes('history'))).toEqual([]);
  model.dispose();
});
