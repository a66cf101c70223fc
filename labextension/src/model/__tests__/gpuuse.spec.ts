import { expect, it } from 'vitest';
import type { GpuPoint, JobGpuUse, WorkerGpuUse } from '../api';
import { linesOf } from '../gpuuse';
import { plain } from '../../trans';

const point = (start: number, utilisation: number | null, used: number | null = null): GpuPoint => ({
  start,
  utilisation,
  most_utilisation: utilisation,
  used_memory_gib: used,
  power_watts: null,
  temperature: null,
  most_temperature: null,
  slowed: null,
  throttle_reasons: [],
  corrected_errors: 0,
  uncorrected_errors: 0,
  xid: null
});
const gpu = (rank: number, index: number, ...points: GpuPoint[]): WorkerGpuUse => ({
  rank,
  node: 'n1',
  gpu: index,
  points
});
const use = (...gpus: WorkerGpuUse[]): JobGpuUse => ({
  attempt: 1,
  since: 0,
  until: 60,
  step: 10,
  held: gpus.length,
  declared: false,
  shared: false,
  gpus
});

it('a few GPUs have a line each, without what was not measured', () => {
  const found = use(gpu(0, 3, point(0, 0.5, 4), point(10, null), point(20, 1)), gpu(0, 4));
  expect(linesOf(found, 'utilisation', plain)).toEqual([
    {
      name: 'n1 GPU 3',
      points: [
        { at: 0, value: 0.5 },
        { at: 20, value: 1 }
      ]
    }
  ]);
  expect(linesOf(found, 'used_memory_gib', plain)).toMatchObject([{ points: [{ at: 0, value: 4 }] }]);
  expect(linesOf(use(gpu(0, 1, point(0, 1)), gpu(1, 2, point(0, 1))), 'utilisation', plain)).toMatchObject([
    { name: 'rank 0 · n1 GPU 1' },
    { name: 'rank 1 · n1 GPU 2' }
  ]);
});

it('many GPUs have the mean, and those that were used least and most', () => {
  const many = [0.5, 0.25, 0.5, 1, 0.5, 0.25].map((value, n) => gpu(0, n, point(10, value), point(0, n === 3 ? 1 : 0)));
  expect(linesOf(use(...many), 'utilisation', plain)).toEqual([
    {
      name: 'mean of 6 GPUs',
      points: [
        { at: 0, value: 1 / 6 },
        { at: 10, value: 0.5 }
      ]
    },
    {
      name: 'least: n1 GPU 1',
      points: [
        { at: 10, value: 0.25 },
        { at: 0, value: 0 }
      ]
    },
    {
      name: 'most: n1 GPU 3',
      points: [
        { at: 10, value: 1 },
        { at: 0, value: 1 }
      ]
    }
  ]);
});
