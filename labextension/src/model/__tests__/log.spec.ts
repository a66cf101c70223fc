import { describe, expect, it } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import { Client } from '../client';
import { followLog, LogLines, type LogTail } from '../log';

function linesOf(text: string, size = text.length): readonly string[] {
  const log = new LogLines();
  for (let at = 0; at < text.length; at += size) {
    log.push(text.slice(at, at + size));
  }
  return log.lines;
}

describe('the lines of a log', () => {
  it.each([
    ['one\ntwo\n', ['one', 'two', '']],
    ['10 %\r50 %\rdone', ['done']],
    ['100 %\r5', ['500 %']],
    ['windows\r\nlines\r\n', ['windows', 'lines', '']],
    ['\u001b[31mred\u001b[0m and \u001b[1;32mgreen\u001b[m', ['red and green']],
    ['\u001b]0;title\u0007text', ['text']]
  ])('%j reads as a terminal shows it, however it is cut', (text, lines) => {
    for (let size = 1; size <= text.length; size++) {
      expect(linesOf(text, size)).toEqual(lines);
    }
  });

  it('are bounded in number and length', () => {
    const log = new LogLines();
    log.push(`${'x'.repeat(100_000)}\n`);
    expect(log.lines[0]!.length).toBeLessThanOrEqual(4000);
    log.push('line\n'.repeat(5000));
    expect(log.lines.length).toBeLessThanOrEqual(2000);
    expect(log.shortened).toBe(true);
  });
});

describe('following a log', () => {
  it('shows what is added, byte by byte once, and ends with the attempt', async () => {
    const scheduler = new Scheduler();
    scheduler.jobs.set('a', aJob('a', { state: 'running' }));
    scheduler.logs.set('a', 'grö');
    let over = false;
    const shown: LogTail[] = [];
    await followLog(
      new Client(scheduler),
      'a',
      1,
      () => over,
      tail => {
        shown.push(tail);
        scheduler.logs.set('a', 'größer\nend\n');
        over = shown.length > 1;
      },
      new AbortController().signal
    );
    expect(shown[0]!.lines).toEqual(['grö']);
    expect(shown.at(-1)).toMatchObject({
      lines: ['größer', 'end', ''],
      complete: true,
      problem: null
    });
  });

  it('says why there is none, and asks no more', async () => {
    const scheduler = new Scheduler();
    scheduler.trouble = [403, { detail: 'Only its owner may read the log of a job.' }];
    const shown: LogTail[] = [];
    await followLog(
      new Client(scheduler),
      'a',
      1,
      () => false,
      tail => shown.push(tail),
      new AbortController().signal
    );
    expect(shown).toEqual([
      {
        lines: [],
        shortened: false,
        complete: true,
        problem: 'Only its owner may read the log of a job.'
      }
    ]);
  });
});
