import { describe, expect, it } from 'vitest';
import { continuous, metrics, progress, type Point } from '../reports';

const point = (attempt: number, step: number, more: Point = {}): Point => ({
  time: step,
  attempt,
  rank: 0,
  step,
  loss: 1 / step,
  ...more
});

describe('the reports of a job', () => {
  it('are merged over its attempts', () => {
    const line = continuous([], [point(1, 1), point(1, 2), point(1, 3)]);
    const whole = continuous(line, [point(2, 2), point(2, 3), point(2, 4)]);
    expect(whole.map(one => [one.attempt, one.step])).toEqual([
      [1, 1],
      [2, 2],
      [2, 3],
      [2, 4]
    ]);
  });

  it('are those of the first worker, and limited in number', () => {
    const told = Array.from({ length: 5000 }, (_, at) => point(1, at + 1, { rank: at % 2 }));
    let line: Point[] = [];
    for (const one of told) {
      line = continuous(line, [one]);
    }
    expect(line.length).toBeLessThanOrEqual(1000);
    expect(line.at(-1)!.step).toBe(4999);
    expect(metrics(line).map(one => one.name)).toEqual(['loss']);
  });

  it('give the progress and the remaining time', () => {
    const line = [
      { time: 100, attempt: 2, step: 40, total: 100 },
      { time: 130, attempt: 2, step: 50, total: 100 }
    ];
    expect(progress(line)).toEqual({ unit: 'step', done: 50, total: 100, left: 150, at: 130 });
    expect(progress([{ time: 1, attempt: 1, cell: 2, cells: 5 }])).toMatchObject({
      unit: 'cell',
      done: 2,
      total: 5,
      left: null
    });
    expect(progress([])).toBeNull();
  });
});
