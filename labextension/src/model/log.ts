/** The end of a worker's log as a terminal would show it, whatever the size of the log. */
import { PLAIN, restyled, type Style } from './ansi';
import type { Client } from './client';
import { LineTimes } from './linetimes';
import { pause, PoolError } from './transport';

const MOST_LINES = 2000;
const MOST_COLUMNS = 4000;
const MOST_RUNS = 100;

/** What is not text: an escape sequence (the parameters and the name of a control sequence), or the end of a line. */
const CONTROLS = /\u001b(?:\[([0-9;?]*)[ -/]*([@-~])|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-_])|[\r\n]/g;

const CUT = /\u001b(?:\[[0-9;?]*[ -/]*|\][^\u0007\u001b]{0,200}\u001b?)?$/;

/** Characters of a line that look the same. */
export interface Run {
  readonly text: string;
  readonly style: Style;
}

export interface LogLine {
  /** Counts from the first line of the log. */
  readonly number: number;
  readonly runs: readonly Run[];
}

export function textOf(line: LogLine): string {
  return line.runs.map(run => run.text).join('');
}

/** Splits text that arrives in chunks into lines; a carriage return restarts the line. A changed line is a new object. */
export class LogLines {
  get lines(): readonly LogLine[] {
    return this._lines;
  }

  /** Whether lines at the beginning have been dropped. */
  get shortened(): boolean {
    return this._shortened;
  }

  push(text: string): void {
    let input = this._cut + text;
    // Keep an incomplete escape sequence for the next chunk.
    this._cut = CUT.exec(input)?.[0] ?? '';
    input = input.slice(0, input.length - this._cut.length);
    const lines = this._lines.length ? [...this._lines] : [{ number: 0, runs: [] }];
    let from = 0;
    for (const control of input.matchAll(CONTROLS)) {
      this._write(lines, input.slice(from, control.index));
      from = control.index + control[0].length;
      this._obey(lines, control);
    }
    this._write(lines, input.slice(from));
    if (lines.length > MOST_LINES) {
      lines.splice(0, lines.length - MOST_LINES);
      this._shortened = true;
    }
    this._lines = lines;
  }

  private _obey(lines: LogLine[], [control, parameters = '', name]: RegExpMatchArray): void {
    const { number, runs } = lines.at(-1)!;
    if (control === '\r') {
      this._column = 0;
    } else if (control === '\n') {
      lines.push({ number: number + 1, runs: [] });
      this._column = 0;
    } else if (name === 'm') {
      this._style = restyled(this._style, parameters);
    } else if (name === 'K' && Number(parameters) === 0) {
      lines[lines.length - 1] = { number, runs: part(runs, 0, this._column) };
    } else if (name === 'K' && parameters === '2') {
      const blank = { text: ' '.repeat(this._column), style: PLAIN };
      lines[lines.length - 1] = { number, runs: this._column ? [blank] : [] };
    }
  }

  /** Writes the text over what is at the cursor. */
  private _write(lines: LogLine[], text: string): void {
    text = text.slice(0, MOST_COLUMNS - this._column);
    if (text) {
      const { number, runs } = lines.at(-1)!;
      const to = this._column + text.length;
      const written = [...part(runs, 0, this._column), { text, style: this._style }, ...part(runs, to, MOST_COLUMNS)];
      lines[lines.length - 1] = { number, runs: joined(written) };
      this._column = to;
    }
  }

  private _lines: readonly LogLine[] = [];
  private _column = 0;
  private _style = PLAIN;
  private _cut = '';
  private _shortened = false;
}

/** The characters from one column up to another. */
function part(runs: readonly Run[], from: number, to: number): Run[] {
  const found: Run[] = [];
  let column = 0;
  for (const { text, style } of runs) {
    const some = text.slice(Math.max(0, from - column), Math.max(0, to - column));
    if (some) {
      found.push({ text: some, style });
    }
    column += text.length;
  }
  return found;
}

/** Joins neighbours of one style. Very many runs lose their colours: each costs the browser an element. */
function joined(runs: readonly Run[]): readonly Run[] {
  const found: Run[] = [];
  for (const run of runs) {
    const last = found.at(-1);
    if (last?.style === run.style) {
      found[found.length - 1] = { text: last.text + run.text, style: run.style };
    } else {
      found.push(run);
    }
  }
  return found.length > MOST_RUNS ? [{ text: runs.map(run => run.text).join(''), style: PLAIN }] : found;
}

export interface LogTail {
  readonly lines: readonly LogLine[];
  readonly shortened: boolean;
  /** Ends the text. */
  readonly complete: boolean;
  readonly problem: string | null;
  /** When lines were written, by their numbers, in seconds since the epoch. */
  readonly times: ReadonlyMap<number, number>;
}

export const NO_LOG: LogTail = { lines: [], shortened: false, complete: false, problem: null, times: new Map() };

/**
 * Reads the log of one worker of an attempt until it is complete, and calls `show` as it grows. It reads when the event
 * stream says that the job has printed, or `client.written` is rung since the attempt has ended.
 *
 * It uses short requests, not one long one: several logs may be open at once, and a browser allows six connections to
 * a server over HTTP/1. `ended` says whether the attempt has ended, so that an empty answer means the end of the log.
 * `timed`: also read when the lines were written.
 */
export async function followLog(
  client: Client,
  job: string,
  attempt: number,
  rank: number,
  ended: () => boolean,
  show: (tail: LogTail) => void,
  signal: AbortSignal,
  timed = false
): Promise<void> {
  const log = new LogLines();
  const lines = new LineTimes(MOST_LINES);
  const decoder = new TextDecoder();
  const alarm = client.written.alarm(job, 'printed', signal);
  /** A log without times is better than none. */
  const failed = (reason: unknown): [] => {
    if (signal.aborted) {
      throw reason;
    }
    return [];
  };
  let offset = 0;
  while (!signal.aborted) {
    const over = ended();
    let problem: string | null = null;
    let size = 0;
    try {
      const bytes = await client.log(job, attempt, rank, offset, signal);
      size = bytes.length;
      offset += size;
      log.push(decoder.decode(bytes, { stream: true }));
      lines.push(bytes);
      if (over && size === 0) {
        lines.close();
      }
      for (let more = timed; more && lines.missing !== null;) {
        const lengths = await client.logTimes(job, attempt, rank, lines.missing, signal).catch(failed);
        lines.know(lengths);
        more = over && lengths.length > 0;
      }
    } catch (reason) {
      if (signal.aborted) {
        return;
      }
      problem = reason instanceof PoolError ? reason.message : String(reason);
      if (reason instanceof PoolError && !reason.passing) {
        show({ lines: log.lines, shortened: log.shortened, complete: true, problem, times: lines.times });
        return;
      }
    }
    const complete = over && size === 0 && problem === null;
    show({ lines: log.lines, shortened: log.shortened, complete, problem, times: lines.times });
    if (complete) {
      return;
    }
    await pause(problem ? 5000 : 250, signal);
    if (size === 0 && problem === null) {
      await alarm.next(signal);
    }
  }
}
