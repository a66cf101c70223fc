import { expect, it } from 'vitest';
import { LineTimes } from '../linetimes';

const encode = (text: string) => new TextEncoder().encode(text);

/** The times of the lines of a text that is read in pieces. */
function timesOf(text: string, size: number, lengths: [number, number][], most = 2000): (number | undefined)[] {
  const lines = new LineTimes(most);
  const bytes = encode(text);
  for (let at = 0; at < bytes.length; at += size) {
    lines.push(bytes.slice(at, at + size));
    const { missing } = lines;
    if (missing !== null) {
      lines.know(lengths.filter(([length]) => length > missing));
    }
  }
  lines.close();
  lines.know(lengths.filter(([length]) => length > (lines.missing ?? Infinity)));
  return text.split('\n').map((_, line) => lines.times.get(line));
}

it('each line has the first time at which the log had it, however it is read', () => {
  const text = 'one\ntwo é\nthree\nfour';
  const lengths: [number, number][] = [
    [3, 10],
    [7, 11],
    [18, 12],
    [22, 13]
  ];
  for (let size = 1; size <= 30; size++) {
    expect(timesOf(text, size, lengths)).toEqual([11, 12, 12, 13]);
  }
});

it('lines whose time is not known yet have none', () => {
  expect(timesOf('one\ntwo\nthree', 4, [[4, 10]])).toEqual([10, undefined, undefined]);
  expect(timesOf('one\n', 4, [])).toEqual([undefined, undefined]);
});

it('an empty log, and one that was closed before, lack no times', () => {
  const lines = new LineTimes(10);
  lines.close();
  expect(lines.missing).toBeNull();
  lines.push(encode('one'));
  lines.close();
  lines.close();
  lines.know([[3, 7]]);
  expect([lines.missing, [...lines.times]]).toEqual([null, [[0, 7]]]);
});

it('only the last lines are kept', () => {
  const found = timesOf('x\n'.repeat(100), 7, [[200, 5]], 10);
  expect(found.slice(0, 80)).toEqual(Array(80).fill(undefined));
  expect(found.slice(91, 100)).toEqual(Array(9).fill(5));
});
