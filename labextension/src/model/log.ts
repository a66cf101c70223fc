/** The end of a worker's log, as a terminal would show it, whatever its size. */
import type { Client } from './client';
import { PoolError } from './transport';

const MOST_LINES = 2000;
const MOST_COLUMNS = 4000;

// eslint-disable-next-line no-control-regex
const ESCAPES = /\u001b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-_])/g;

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
    let input = this._pending + text;
    this._pending = '';
    // An escape sequence or a line's end may have been cut in two.
    const cut = /(?:\r|\u001b[^A-Za-z\u0007]{0,32})$/.exec(input);
    if (cut) {
      this._pending = cut[0];
      input = input.slice(0, cut.index);
    }
    const lines = [...this._lines];
    const parts = input.replace(ESCAPES, '').replace(/\r+\n/g, '\n').split('\n');
    parts.forEach((part, index) => {
      const open = index === 0 ? (lines.pop() ?? '') : '';
      lines.push(overwrite(open, part).slice(0, MOST_COLUMNS));
    });
    if (lines.length > MOST_LINES) {
      lines.splice(0, lines.length - MOST_LINES);
      this._shortened = true;
    }
    this._lines = lines;
  }

  private _lines: readonly string[] = [];
  private _pending = '';
  private _shortened = false;
}

function overwrite(line: string, text: string): string {
  const parts = text.split('\r');
  let result = line + (parts[0] ?? '');
  for (const part of parts.slice(1)) {
    result = part + result.slice(part.length);
  }
  return result;
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

function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const timer = setTimeout(done, milliseconds);
    signal.addEventListener('abort', done);
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    }
  });
}
