/**
 * What is being put together in the dialog: a job of a script, a notebook or a command, or the first line of a cell. The
 * user's own server reads the options, which are given as text; what it refuses stands at the field that is at fault.
 */
import { Signal, type ISignal } from '@lumino/signaling';
import type { DryRunView } from './api';
import { errorOf, PoolError, UNREACHABLE, type ITransport } from './transport';

/** The field that says what to run, in a refusal. */
export const RUN = 'run';

/** The field that parameters of a notebook are given in. */
const PARAMETERS = 'notebook_parameters';

/** The field that the variables are named in that a cell returns. */
const OUTPUTS = 'outputs';

/** What makes a cell run on the pool, at the begin of its first line. */
export const CELL_MAGIC = '%%runai_train';

/** What became of a submission: its job, or the first one of its array. */
export interface Sent {
  id: string;
  name: string;
  project: string;
  state: string;
  /** How many jobs it is. */
  jobs: number;
  /** What was sent with it, as a sentence. */
  files: string;
}

/** What the folder holds that would be sent. */
export interface Files {
  files: number;
  size: number;
}

/** What is refused, and the field that is at fault; null where none is. */
export interface Refusal {
  field: string | null;
  sentence: string;
}

/** What is shown: never changed, only replaced. */
export interface SubmissionState {
  /** A line: a script with its arguments, a notebook or a command. */
  readonly run: string;
  /** What was written, by the names of the options. */
  readonly values: Readonly<Record<string, string>>;
  readonly files: Files | Refusal | null;
  /** What would happen if it were sent now; null while that is not known. */
  readonly dryRun: DryRunView | Refusal | null;
  /** The line that will stand above the cell. */
  readonly line: string;
  readonly refusal: Refusal | null;
  readonly sending: boolean;
}

/** What the dialog shows, and sends: `T` is what becomes of it. */
export abstract class Submission<T = unknown> {
  protected constructor(
    protected readonly server: ITransport,
    values: Readonly<Record<string, string>> = {},
    run = ''
  ) {
    this._state = { run, values, files: null, dryRun: null, line: '', refusal: null, sending: false };
  }

  get state(): SubmissionState {
    return this._state;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether it has an option. */
  abstract takes(option: string): boolean;

  /** Finds out what would be sent. */
  abstract look(): Promise<void>;

  /** Asks the server for what is wanted. */
  protected abstract ask(options: Record<string, string>): Promise<T>;

  /** What it runs, as the server is told of it for a dry run. */
  protected abstract get runs(): object;

  /** Finds out what would happen if it were sent now. */
  async tryOut(): Promise<void> {
    this._trying?.abort();
    const trying = (this._trying = new AbortController());
    const body = JSON.stringify({ ...this.runs, options: this._options() });
    const dryRun = await asked<DryRunView>(this.server, 'dry-run', {
      method: 'POST',
      body,
      signal: trying.signal
    }).catch((error: PoolError) => refusalOf(error));
    if (!trying.signal.aborted) {
      this.change({ dryRun });
    }
  }

  /** What was written for an option; an empty text takes it away. */
  set(name: string, text: string): void {
    const values = { ...this._state.values, [name]: text };
    if (!text.trim()) {
      delete values[name];
    }
    this.change({ values, ...this.answered(name) });
  }

  /** Sends it; null where it was refused, which the state then says. */
  async send(): Promise<T | null> {
    if (this._state.sending) {
      return null;
    }
    this.change({ sending: true, refusal: null });
    try {
      const sent = await this.ask(this._options());
      this.change({ sending: false });
      return sent;
    } catch (error) {
      this.change({ sending: false, refusal: refusalOf(error as PoolError) });
      return null;
    }
  }

  /** A refusal goes when the field at fault is changed, or any where it names none. */
  protected answered(field: string): Partial<SubmissionState> {
    const { refusal } = this._state;
    return refusal && (refusal.field ?? field) === field ? { refusal: null } : {};
  }

  protected change(change: Partial<SubmissionState>): void {
    this._state = { ...this._state, ...change };
    this._changed.emit();
  }

  private _options(): Record<string, string> {
    return Object.fromEntries(Object.entries(this._state.values).filter(([name]) => this.takes(name)));
  }

  private _state: SubmissionState;
  private _trying: AbortController | null = null;
  private readonly _changed = new Signal<this, void>(this);
}

/** A script, a notebook or a command. */
export class JobSubmission extends Submission<Sent> {
  /**
   * @param folder - where files are found and sent from, as the file browser names it.
   * @param run - what to run, as a line.
   * @param values - what is written already, by the names of the options.
   */
  constructor(
    server: ITransport,
    readonly folder: string,
    run = '',
    values: Readonly<Record<string, string>> = {}
  ) {
    super(server, values, run);
  }

  takes(option: string): boolean {
    return option === PARAMETERS ? this._isNotebook : option !== OUTPUTS;
  }

  setRun(run: string): void {
    this.change({ run, ...this.answered(RUN) });
  }

  override set(name: string, text: string): void {
    super.set(name, text);
    if (name === 'in' || name === 'no_files') {
      void this.look();
    }
  }

  async look(): Promise<void> {
    this._looking?.abort();
    const looking = (this._looking = new AbortController());
    const { values } = this.state;
    if ('no_files' in values) {
      this.change({ files: { files: 0, size: 0 } });
      return;
    }
    const search = new URLSearchParams({ folder: this.folder });
    if ('in' in values) {
      search.set('in', values.in!);
    }
    try {
      const files = await asked<Files>(this.server, `files?${search}`, { signal: looking.signal });
      this.change({ files });
    } catch (error) {
      if (!looking.signal.aborted) {
        this.change({ files: refusalOf(error as PoolError) });
      }
    }
  }

  protected ask(options: Record<string, string>): Promise<Sent> {
    return asked<Sent>(this.server, 'jobs', {
      method: 'POST',
      body: JSON.stringify({ folder: this.folder, run: this.state.run, options })
    });
  }

  protected get runs(): object {
    return { folder: this.folder, run: this.state.run };
  }

  private get _isNotebook(): boolean {
    return this.state.run.trim().replace(/["']$/, '').endsWith('.ipynb');
  }

  private _looking: AbortController | null = null;
}

/** The line above a cell that has it run on the pool. */
export class CellSubmission extends Submission<string> {
  /** @param line - the line above the cell so far; empty where there is none. */
  private constructor(
    server: ITransport,
    values: Record<string, string>,
    readonly line: string
  ) {
    super(server, values);
  }

  /** A submission of a cell; its options are those of the line that it has, if it has one. */
  static async of(server: ITransport, source: string): Promise<CellSubmission> {
    const line = lineOf(source);
    const { options } = line ? await writtenOn<{ options: Record<string, string> }>(server, { line }) : { options: {} };
    return new CellSubmission(server, options, line);
  }

  takes(option: string): boolean {
    return option !== PARAMETERS;
  }

  override set(name: string, text: string): void {
    super.set(name, text);
    void this.look();
  }

  async look(): Promise<void> {
    this._looking?.abort();
    const looking = (this._looking = new AbortController());
    const line = await this._line(this.state.values, looking.signal).catch(() => null); // said when it is sent
    if (line !== null && !looking.signal.aborted) {
      this.change({ line });
    }
  }

  protected ask(options: Record<string, string>): Promise<string> {
    return this._line(options);
  }

  protected get runs(): object {
    return {};
  }

  private async _line(options: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<string> {
    const form = { line: this.line, options };
    return (await writtenOn<{ line: string }>(this.server, form, signal)).line;
  }

  private _looking: AbortController | null = null;
}

/** The line above a cell that has it run on the pool; empty where there is none. */
export function lineOf(source: string): string {
  const line = source.trimStart().split('\n', 1)[0]!;
  return line.split(/\s/, 1)[0] === CELL_MAGIC ? line : '';
}

/** A cell with another line above it. */
export function withLine(source: string, line: string): string {
  const before = lineOf(source);
  return before ? line + source.trimStart().slice(before.length) : `${line}\n${source}`;
}

function writtenOn<A>(server: ITransport, form: object, signal?: AbortSignal): Promise<A> {
  return asked<A>(server, 'line', { method: 'POST', body: JSON.stringify(form), signal: signal ?? null });
}

async function asked<A>(server: ITransport, path: string, init: RequestInit): Promise<A> {
  let response: Response;
  try {
    response = await server.send(path, init);
  } catch (reason) {
    throw reason instanceof PoolError ? reason : new PoolError(UNREACHABLE);
  }
  if (!response.ok) {
    throw await errorOf(response);
  }
  return (await response.json()) as A;
}

function refusalOf(error: PoolError): Refusal {
  return { field: error.field, sentence: error.message };
}
