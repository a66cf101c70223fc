/**
 * Writes what a job displays into the outputs of its cell after the kernel has stopped doing so: after a reload of the
 * page or a restart of the kernel. The outputs belong to the notebook, share its trust, and are saved with it.
 */
import type { DisplayLine } from './api';
import type { Client } from './client';
import { pause, PoolError } from './transport';

export type Output = Record<string, unknown>;

/** The parts of JupyterLab's cell output model that are used here. */
export interface IOutputs {
  readonly length: number;
  readonly isDisposed: boolean;
  add(output: Output): unknown;
  set(index: number, output: Output): void;
  toJSON(): Output[];
  fromJSON(outputs: Output[]): void;
}

/** The number of characters of text written into a notebook; the rest is in the log. */
const MOST_TEXT = 1_000_000;

/** Writes outputs into a cell, after the first `start` ones. */
export class OutputWriter {
  constructor(
    private readonly _outputs: IOutputs,
    private readonly _start: number,
    private readonly _more: string
  ) {
    this._clear();
  }

  write(output: Output): void {
    if (output.output_type === 'clear_output') {
      this._cleared = true;
      if (!output.wait) {
        this._clear();
      }
      return;
    }
    const { transient, ...plain } = output as Output & { transient?: { display_id?: string } };
    const id = transient?.display_id;
    if (output.output_type === 'update_display_data') {
      for (const index of (id !== undefined && this._places.get(id)) || []) {
        this._outputs.set(index, { ...plain, output_type: 'display_data' });
      }
      return;
    }
    if (this._cleared) {
      this._clear();
    }
    if (output.output_type === 'stream') {
      this._text(plain);
      return;
    }
    if (id !== undefined) {
      this._places.set(id, [...(this._places.get(id) ?? []), this._outputs.length]);
    }
    this._outputs.add(output.output_type === 'execute_result' ? { ...plain, output_type: 'display_data' } : plain);
  }

  private _text(output: Output): void {
    const text = String(output.text);
    const left = MOST_TEXT - this._written;
    if (left < 0) {
      return;
    }
    this._written += text.length;
    const rest = text.length > left ? this._more : '';
    this._outputs.add({ ...output, text: text.slice(0, left) + rest });
  }

  private _clear(): void {
    this._cleared = false;
    this._places.clear();
    this._written = 0;
    // Replace all outputs: outputs removed one by one would stay in the notebook file.
    this._outputs.fromJSON(this._outputs.toJSON().slice(0, this._start));
  }

  private readonly _places = new Map<string, number[]>();
  private _cleared = false;
  private _written = 0;
}

/**
 * Reads everything that a job displays until it ends, whenever it has printed or `client.written` is rung for it; true if
 * the outputs are complete.
 */
export async function followOutputs(
  client: Client,
  job: string,
  standing: () => { attempts: number; ended: boolean },
  write: (output: Output) => void,
  signal: AbortSignal
): Promise<boolean> {
  let at: Pick<DisplayLine, 'attempt' | 'log' | 'display'> = { attempt: 1, log: 0, display: 0 };
  const alarm = client.written.alarm(job, 'printed', signal);
  while (!signal.aborted) {
    const { attempts, ended } = standing();
    if (signal.aborted) {
      break;
    }
    let lines: DisplayLine[] = [];
    try {
      lines = attempts ? await client.display(job, at, signal) : [];
    } catch (reason) {
      if (signal.aborted || (reason instanceof PoolError && !reason.passing)) {
        return false;
      }
      await pause(5000, signal);
      continue;
    }
    standing();
    if (signal.aborted) {
      break;
    }
    for (const line of lines) {
      write(line.output);
      at = line;
    }
    if (lines.length === 0) {
      if (attempts > at.attempt) {
        at = { attempt: at.attempt + 1, log: 0, display: 0 };
        const text = `\n--- attempt ${at.attempt} ---\n`;
        write({ output_type: 'stream', name: 'stdout', text });
        continue;
      }
      if (ended) {
        return true;
      }
    }
    await pause(200, signal);
    if (lines.length === 0) {
      await alarm.next(signal);
    }
  }
  return false;
}
