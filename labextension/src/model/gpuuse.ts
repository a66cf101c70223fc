/** The lines of a chart of how the GPUs of a job were used. */
import type { Trans } from '../trans';
import type { GpuPoint, JobGpuUse, WorkerGpuUse } from './api';

/** More lines in one chart cannot be told apart. */
const MOST = 5;

export type Measure = 'utilisation' | 'used_memory_gib';

export interface UseLine {
  name: string;
  points: { at: number; value: number }[];
}

/** A line for each GPU that was measured; of many GPUs the mean, and the GPUs that were used least and most. */
export function linesOf({ gpus }: JobGpuUse, measure: Measure, trans: Trans): UseLine[] {
  const several = gpus.some(gpu => gpu.rank !== gpus[0]!.rank);
  const lines = gpus
    .map(gpu => ({ name: nameOf(gpu, several, trans), points: pointsOf(gpu.points, measure) }))
    .filter(line => line.points.length > 0);
  if (lines.length <= MOST) {
    return lines;
  }
  const sorted = [...lines].sort((a, b) => mean(a) - mean(b));
  const [least, most] = [sorted[0]!, sorted.at(-1)!];
  return [
    { name: trans.__('mean of %1 GPUs', lines.length), points: meanOf(lines) },
    { ...least, name: trans.__('least: %1', least.name) },
    { ...most, name: trans.__('most: %1', most.name) }
  ];
}

function pointsOf(points: readonly GpuPoint[], measure: Measure): UseLine['points'] {
  return points.flatMap(point => (point[measure] === null ? [] : [{ at: point.start, value: point[measure] }]));
}

function nameOf({ rank, node, gpu }: WorkerGpuUse, several: boolean, trans: Trans): string {
  return several ? trans.__('rank %1 · %2 GPU %3', rank, node, gpu) : trans.__('%1 GPU %2', node, gpu);
}

function mean({ points }: UseLine): number {
  return points.reduce((sum, point) => sum + point.value, 0) / points.length;
}

/** The mean of the lines wherever one of them has a point. */
function meanOf(lines: readonly UseLine[]): UseLine['points'] {
  const found = new Map<number, number[]>();
  for (const { at, value } of lines.flatMap(line => line.points)) {
    found.set(at, [...(found.get(at) ?? []), value]);
  }
  return [...found]
    .sort(([a], [b]) => a - b)
    .map(([at, values]) => ({ at, value: values.reduce((sum, value) => sum + value, 0) / values.length }));
}
