/** The magic line that runs a cell on the pool, from the fields of the dialog. */
import type { IAlongKernel } from './along';
import { asked } from './asked';
import { PARAMETERS, Submission } from './submission';
import type { ITransport } from './transport';

/** The magic that runs a cell on the pool, at the start of its first line. */
export const CELL_MAGIC = '%%runai_train';

/** The magic line that runs a cell on the pool. */
export class CellSubmission extends Submission<string> {
  /** @param line - the current magic line of the cell; empty if it has none. */
  private constructor(
    server: ITransport,
    values: Record<string, string>,
    readonly line: string,
    private readonly _cell: string,
    private readonly _kernel: IAlongKernel | null
  ) {
    super(server, values);
  }

  /** A submission of a cell; its options start from the cell's magic line, if it has one. */
  static async of(server: ITransport, source: string, kernel: IAlongKernel | null = null): Promise<CellSubmission> {
    const line = lineOf(source);
    const { options } = line ? await writtenOn<{ options: Record<string, string> }>(server, { line }) : { options: {} };
    const cell = line ? source.trimStart().slice(line.length).replace(/^\n/, '') : source;
    return new CellSubmission(server, options, line, cell, kernel);
  }

  override dispose(): void {
    this._looking?.abort();
    this._ends.abort();
    super.dispose();
  }

  override takes(option: string): boolean {
    return option !== PARAMETERS && super.takes(option);
  }

  override set(name: string, text: string): void {
    super.set(name, text);
    void this.look();
  }

  async look(): Promise<void> {
    this._looking?.abort();
    const looking = (this._looking = new AbortController());
    const line = await this._line(this.state.values, looking.signal).catch(() => null); // reported on submission
    if (line !== null && !looking.signal.aborted) {
      this.change({ line });
      void this._askKernel();
    }
  }

  protected ask(options: Record<string, string>): Promise<string> {
    return this._line(options);
  }

  protected get runs(): object {
    return {};
  }

  /** Asks for the current line, once at a time. */
  private async _askKernel(): Promise<void> {
    if (!this._kernel || this._isAsking) {
      return;
    }
    this._isAsking = true;
    const { signal } = this._ends;
    for (let asked = ''; asked !== this.state.line && !signal.aborted;) {
      asked = this.state.line;
      const options = asked.slice(CELL_MAGIC.length).trim();
      const along = await this._kernel.goesAlong(options, this._cell, signal, () => this.change({ along: 'waiting' }));
      if (!signal.aborted) {
        this.change({ along });
      }
    }
    this._isAsking = false;
  }

  private async _line(options: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<string> {
    const form = { line: this.line, options };
    return (await writtenOn<{ line: string }>(this.server, form, signal)).line;
  }

  private _looking: AbortController | null = null;
  private _isAsking = false;
  private readonly _ends = new AbortController();
}

/** The magic line that runs a cell on the pool; empty if there is none. */
export function lineOf(source: string): string {
  const line = source.trimStart().split('\n', 1)[0]!;
  return line.split(/\s/, 1)[0] === CELL_MAGIC ? line : '';
}

/** The cell's source with its magic line replaced. */
export function withLine(source: string, line: string): string {
  const before = lineOf(source);
  return before ? line + source.trimStart().slice(before.length) : `${line}\n${source}`;
}

function writtenOn<A>(server: ITransport, form: object, signal?: AbortSignal): Promise<A> {
  return asked<A>(server, 'line', { method: 'POST', body: JSON.stringify(form), signal: signal ?? null });
}
