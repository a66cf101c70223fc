/**
 * A job that is being put together in the dialog: what to run, the options that were given as text, and what is said of them.
 * The user's own server reads and sends it; what it refuses stands at the field that is at fault.
 */
import { Signal, type ISignal } from '@lumino/signaling';
import { errorOf, PoolError, UNREACHABLE, type ITransport } from './transport';

/** The field that says what to run, in a refusal. */
export const RUN = 'run';

/** The field that parameters of a notebook are given in. */
const PARAMETERS = 'notebook_parameters';

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
  readonly refusal: Refusal | null;
  readonly sending: boolean;
}

export class Submission {
  /**
   * @param folder - where files are found and sent from, as the file browser names it.
   * @param run - what to run, as a line.
   */
  constructor(
    private readonly _server: ITransport,
    readonly folder: string,
    run = ''
  ) {
    this._state = { run, values: {}, files: null, refusal: null, sending: false };
  }

  get state(): SubmissionState {
    return this._state;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether a notebook is run, which has parameters in the place of arguments. */
  get isNotebook(): boolean {
    return this._state.run.trim().replace(/["']$/, '').endsWith('.ipynb');
  }

  setRun(run: string): void {
    this._change({ run, ...this._answered(RUN) });
  }

  /** What was written for an option; an empty text takes it away. */
  set(name: string, text: string): void {
    const values = { ...this._state.values, [name]: text };
    if (!text.trim()) {
      delete values[name];
    }
    this._change({ values, ...this._answered(name) });
    if (name === 'in' || name === 'no_files') {
      void this.look();
    }
  }

  /** Finds out what of the folder would be sent. */
  async look(): Promise<void> {
    this._looking?.abort();
    const looking = (this._looking = new AbortController());
    if ('no_files' in this._state.values) {
      this._change({ files: { files: 0, size: 0 } });
      return;
    }
    const search = new URLSearchParams({ folder: this.folder });
    if ('in' in this._state.values) {
      search.set('in', this._state.values.in!);
    }
    try {
      const files = await this._ask<Files>(`files?${search}`, { signal: looking.signal });
      this._change({ files });
    } catch (error) {
      if (!looking.signal.aborted) {
        this._change({ files: refusalOf(error as PoolError) });
      }
    }
  }

  /** Sends it; null where it was refused, which the state then says. */
  async send(): Promise<Sent | null> {
    if (this._state.sending) {
      return null;
    }
    this._change({ sending: true, refusal: null });
    const { run, values } = this._state;
    const options = { ...values };
    if (!this.isNotebook) {
      delete options[PARAMETERS]; // it was written for another file
    }
    try {
      const sent = await this._ask<Sent>('jobs', {
        method: 'POST',
        body: JSON.stringify({ folder: this.folder, run, options })
      });
      this._change({ sending: false });
      return sent;
    } catch (error) {
      this._change({ sending: false, refusal: refusalOf(error as PoolError) });
      return null;
    }
  }

  private async _ask<T>(path: string, init: RequestInit): Promise<T> {
    let response: Response;
    try {
      response = await this._server.send(path, init);
    } catch (reason) {
      throw reason instanceof PoolError ? reason : new PoolError(UNREACHABLE);
    }
    if (!response.ok) {
      throw await errorOf(response);
    }
    return (await response.json()) as T;
  }

  /** A refusal goes when the field at fault is changed, or any where it names none. */
  private _answered(field: string): Partial<SubmissionState> {
    const { refusal } = this._state;
    return refusal && (refusal.field ?? field) === field ? { refusal: null } : {};
  }

  private _change(change: Partial<SubmissionState>): void {
    this._state = { ...this._state, ...change };
    this._changed.emit();
  }

  private _state: SubmissionState;
  private _looking: AbortController | null = null;
  private readonly _changed = new Signal<this, void>(this);
}

function refusalOf(error: PoolError): Refusal {
  return { field: error.field, sentence: error.message };
}
