/** The end of a worker's log, as a terminal would show it, whatever its size. */
import type { Client } from './client';
import { pause, PoolError } from './transport';

const MOST_LINES = 2000;
const MOST_COLUMNS = 4000;

const ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-_])/g;

const CUT = /\u001b(?:\[[0-9;?]*[ -/]*|\][^\u0007\u001b]{0,200}\u001b?)?$/;

/** Lines made from text that arrives in pieces: a carriage return starts the line anew, colours are dropped. */
export class LogLines {
  get lines(): readonly string[] {
    return this._lines;
  }

  /** Whether lines from the beginning have been dropped. */
  get shortened(): boolean {
    return this._shortened;
  }

  push(text: string): void {
    let input = this._cut + text;
    // An escape sequence that is not complete yet waits for its rest.
    this._cut = CUT.exec(input)?.[0] ?? '';
    input = input.slice(0, input.length - this._cut.length).replace(ESCAPES, '');
    const lines = [...this._lines];
    input.split('\n').forEach((part, index) => {
      if (index > 0 || lines.length === 0) {
        lines.push('');
        this._column = 0;
      }
      lines.push(this._write(lines.pop() ?? '', part));
    });
    if (lines.length > MOST_LINES) {
      lines.splice(0, lines.length - MOST_LINES);
      this._shortened = true;
    }
    this._lines = lines;
  }

  /** The line with `text` written from where the cursor is; a carriage return takes it back to the beginning. */
  private _write(line: string, text: string): string {
    text.split('\r').forEach((part, index) => {
      const from = index > 0 ? 0 : this._column;
      line = (line.slice(0, from) + part + line.slice(from + part.length)).slice(0, MOST_COLUMNS);
      this._column = Math.min(from + part.length, MOST_COLUMNS);
    });
    return line;
  }

  private _lines: readonly string[] = [];
  private _column = 0;
  private _cut = '';
  private _shortened = false;
}

export interface LogTail {
  readonly lines: readonly string[];
  readonly shortened: boolean;
  /** Nothing more will come. */
  readonly complete: boolean;
  readonly problem: string | null;
}

export const NO_LOG: LogTail = { lines: [], shortened: false, complete: false, problem: null };

/**
 * Reads the log of one attempt until it is complete, `show`ing it as it grows.
 *
 * Short requests rather than one long one: several logs may be open at once, and a browser allows six connections to
 * a server over HTTP/1. `ended` says whether the attempt is over, so that an empty answer means the end.
 */
export async function followLog(
  client: Client,
  job: string,
  attempt: number,
  ended: () => boolean,
  show: (tail: LogTail) => void,
  signal: AbortSignal
): Promise<void> {
  const log = new LogLines();
  const decoder = new TextDecoder();
  let offset = 0;
  while (!signal.aborted) {
    const over = ended();
    let problem: string | null = null;
    let size = 0;
    try {
      const bytes = await client.log(job, attempt, offset, signal);
      size = bytes.length;
      offset += size;
      log.push(decoder.decode(bytes, { stream: true }));
    } catch (reason) {
      if (signal.aborted) {
        return;
      }
      problem = reason instanceof PoolError ? reason.message : String(reason);
      if (reason instanceof PoolError && !reason.passing) {
        show({ lines: log.lines, shortened: log.shortened, complete: true, problem });
        return;
      }
    }
    const complete = over && size === 0 && problem === null;
    show({ lines: log.lines, shortened: log.shortened, complete, problem });
    if (complete) {
      return;
    }
    await pause(size > 0 ? 250 : problem ? 5000 : 1000, signal);
  }
}
