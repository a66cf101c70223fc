import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { Scheduler } from '../../__tests__/scheduler';
import type { NodeView } from '../../model/api';
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
  declared: false,
  gpus: []
};

async function page(admin: boolean): Promise<[Scheduler, PoolModel]> {
  const scheduler = new Scheduler();
  scheduler.me = { ...scheduler.me, admin };
  scheduler.pool = { ...scheduler.pool, nodes: [node, { ...node, name: 'n2', schedulable: false }] };
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

it('shows drained nodes, and offers no actions without the permission', async () => {
  const [, model] = await page(false);
  expect(screen.getByText('takes no new work')).toBeTruthy();
  expect(screen.queryByRole('button', { name: 'Drain n1' })).toBeNull();
  model.dispose();
});
