import { describe, expect, it } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import { Client } from '../client';
import { PLAIN, restyled } from '../ansi';
import { followLog, LogLines, textOf, type LogTail } from '../log';

function linesOf(text: string, size = text.length): readonly string[] {
  const log = new LogLines();
  for (let at = 0; at < text.length; at += size) {
    log.push(text.slice(at, at + size));
  }
  return log.lines.map(textOf);
}

describe('the lines of a log', () => {
  it.each([
    ['one\ntwo\n', ['one', 'two', '']],
    ['10 %\r50 %\rdone', ['done']],
    ['100 %\r5', ['500 %']],
    ['windows\r\nlines\r\n', ['windows', 'lines', '']],
    ['\u001b[31mred\u001b[0m and \u001b[1;32mgreen\u001b[m', ['red and green']],
    ['\u001b]0;title\u0007text', ['text']],
    ['a long line\r\u001b[Kdone', ['done']],
    ['abc\u001b[2Kd\n', ['   d', '']]
  ])('%j reads as a terminal shows it, however it is cut', (text, lines) => {
    for (let size = 1; size <= text.length; size++) {
      expect(linesOf(text, size)).toEqual(lines);
    }
  });

  it('are limited in number and length', () => {
    const log = new LogLines();
    log.push(`${'x'.repeat(100_000)}\n`);
    expect(textOf(log.lines[0]!).length).toBeLessThanOrEqual(4000);
    log.push('line\n'.repeat(5000));
    expect(log.lines.length).toBeLessThanOrEqual(2000);
    expect(log.shortened).toBe(true);
  });
});

describe('the colours of a log', () => {
  const red = restyled(PLAIN, '31');
  const green = restyled(PLAIN, '32');

  it('continue on the next line and in the next chunk, until they are reset', () => {
    const log = new LogLines();
    log.push('\u001b[31mone\nt');
    log.push('wo\u001b[39m three');
    expect(log.lines.map(line => line.runs)).toEqual([
      [{ text: 'one', style: red }],
      [
        { text: 'two', style: red },
        { text: ' three', style: PLAIN }
      ]
    ]);
  });

  it('of a progress bar are overwritten in part', () => {
    const log = new LogLines();
    log.push('\u001b[31m----\r\u001b[32m##');
    expect(log.lines[0]!.runs).toEqual([
      { text: '##', style: green },
      { text: '--', style: red }
    ]);
  });

  it('are limited in number within a line', () => {
    const log = new LogLines();
    log.push(Array.from({ length: 500 }, (_, at) => `\u001b[38;5;${at % 256}mx`).join(''));
    expect(log.lines[0]!.runs.length).toBeLessThanOrEqual(100);
    expect(textOf(log.lines[0]!)).toBe('x'.repeat(500));
  });

  it('change no line that was complete before', () => {
    const log = new LogLines();
    log.push('one\ntwo\nth');
    const before = log.lines;
    log.push('ree\nfour');
    expect(log.lines[0]).toBe(before[0]);
    expect(log.lines[1]).toBe(before[1]);
    expect(log.lines.map(line => line.number)).toEqual([0, 1, 2, 3]);
  });
});

describe('following a log', () => {
  it('shows every byte once, and ends with the attempt', async () => {
    const scheduler = new Scheduler();
    scheduler.jobs.set('a', aJob('a', { state: 'running' }));
    scheduler.logs.set('a', 'grö');
    let over = false;
    const shown: LogTail[] = [];
    await followLog(
      new Client(scheduler),
      'a',
      1,
      0,
      () => over,
      tail => {
        shown.push(tail);
        scheduler.logs.set('a', 'größer\nend\n');
        over = shown.length > 1;
      },
      new AbortController().signal
    );
    expect(shown[0]!.lines.map(textOf)).toEqual(['grö']);
    expect(shown.at(-1)!.lines.map(textOf)).toEqual(['größer', 'end', '']);
    expect(shown.at(-1)).toMatchObject({ complete: true, problem: null });
  });

  it.each([
    ['one\n', ['one', '']],
    ['', ['']]
  ])('shows %j to its end, also where nobody knows the times', async (text, lines) => {
    const scheduler = new Scheduler();
    scheduler.jobs.set('a', aJob('a'));
    scheduler.logs.set('a', text);
    scheduler.before['/jobs/a/log-times'] = () => {
      throw new TypeError('Failed to fetch');
    };
    const shown: LogTail[] = [];
    const show = (tail: LogTail) => shown.push(tail);
    await followLog(new Client(scheduler), 'a', 1, 0, () => true, show, new AbortController().signal, true);
    expect(shown.at(-1)!.lines.map(textOf)).toEqual(lines);
    expect(shown.at(-1)).toMatchObject({ complete: true, problem: null });
    expect(scheduler.asked.filter(asked => asked.includes('log-times')).length > 0).toBe(text !== '');
  });

  it('shows why there is no log, and stops reading', async () => {
    const scheduler = new Scheduler();
    scheduler.trouble = [403, { detail: 'Only its owner may read the log of a job.' }];
    const shown: LogTail[] = [];
    await followLog(
      new Client(scheduler),
      'a',
      1,
      0,
      () => false,
      tail => shown.push(tail),
      new AbortController().signal
    );
    expect(shown).toEqual([
      {
        lines: [],
        shortened: false,
        complete: true,
        problem: 'Only its owner may read the log of a job.',
        times: new Map()
      }
    ]);
  });
});
