/**
 * A submission in the dialog: a job of a script, a notebook or a command, or the magic line of a cell. The user's own
 * server parses the options, which are sent as text; an error is shown at its field.
 */
import { Signal, type ISignal } from '@lumino/signaling';
import type { Along, AlongUnknown } from './along';
import type { DryRunView } from './api';
import { asked, refusalOf, type Refusal } from './asked';
import { Templates, type Template } from './templates';
import type { PoolError, ITransport } from './transport';

/** The name in errors of the field that says what to run. */
export const RUN = 'run';

/** The field of the notebook's parameters. */
export const PARAMETERS = 'notebook_parameters';

/** The fields of a schedule: a cron expression and its time zone. */
export const SCHEDULE = 'schedule';
export const TIME_ZONE = 'timezone';

/** The field of the variables that a cell returns. */
const OUTPUTS = 'outputs';

/** What a clone has from its job, and what would make several jobs of it. */
const OF_FILES = new Set([OUTPUTS, PARAMETERS, 'in', 'no_files', 'after', 'array', 'sweep', 'max_parallel']);

/** The result of a submission: its job, the first job of its array, or its schedule. */
export interface Sent {
  id: string;
  name: string;
  project: string;
  /** The number of jobs; 0 for a schedule. */
  jobs: number;
  /** The next run of a schedule. */
  next_run: number | null;
  /** What was sent with the job, as a sentence. */
  files: string;
}

/** The files in the folder that would be sent. */
export interface Files {
  files: number;
  size: number;
}

/** An immutable state, replaced as a whole. */
export interface SubmissionState {
  /** A command line: a script with its arguments, a notebook or a command. */
  readonly run: string;
  /** The texts of the options, by name. */
  readonly values: Readonly<Record<string, string>>;
  readonly files: Files | Refusal | null;
  /** What goes along with a cell; null while it is unknown. */
  readonly along: Along | AlongUnknown | 'waiting' | null;
  /** The result of the dry run; null while it is unknown. */
  readonly dryRun: DryRunView | Refusal | null;
  /** The magic line for the cell. */
  readonly line: string;
  readonly refusal: Refusal | null;
  readonly sending: boolean;
}

/** What the dialog shows and submits; `T` is the result. */
export abstract class Submission<T = unknown> {
  protected constructor(
    protected readonly server: ITransport,
    values: Readonly<Record<string, string>> = {},
    run = ''
  ) {
    this.templates = new Templates(server);
    this._state = { run, values, files: null, along: null, dryRun: null, line: '', refusal: null, sending: false };
  }

  readonly templates: Templates;

  get state(): SubmissionState {
    return this._state;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Whether the option applies to this submission. */
  takes(option: string): boolean {
    return option !== TIME_ZONE || SCHEDULE in this._state.values;
  }

  /** Ends what is still being found out. */
  dispose(): void {
    this._trying?.abort();
  }

  /** Finds out what would be sent. */
  abstract look(): Promise<void>;

  /** Submits to the server. */
  protected abstract ask(options: Record<string, string>): Promise<T>;

  /** What to run, as the dry run expects it. */
  protected abstract get runs(): object;

  /** Runs a dry run of the current form. */
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

  /** Sets the text of an option; an empty text removes it. */
  set(name: string, text: string): void {
    const values = { ...this._state.values, [name]: text };
    if (!text.trim()) {
      delete values[name];
    } else if (name === SCHEDULE) {
      values[TIME_ZONE] ??= Intl.DateTimeFormat().resolvedOptions().timeZone;
    }
    this.change({ values, ...this.answered(name) });
  }

  /** Fills in the values of a template, in place of those of the template before it; what the user wrote stays. */
  start(template: Template | null): void {
    const before = this._template?.options ?? {};
    const written = Object.entries(this._state.values).filter(([name, text]) => before[name] !== text);
    const values = { ...Object.fromEntries(written), ...template?.options };
    this._template = template;
    this.change({ values, refusal: null });
    void this.look();
  }

  /** Keeps the options as a template. */
  keep(name: string): Promise<Template[]> {
    return this.templates.keep(name, this._options());
  }

  /** Submits; returns null if it was refused and puts the error into the state. */
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

  /** Clears the error when its field changes, or when any field changes if it names none. */
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
  private _template: Template | null = null;
  private readonly _changed = new Signal<this, void>(this);
}

/** A script, a notebook or a command. */
export class JobSubmission extends Submission<Sent> {
  /**
   * @param folder - where files are looked up and sent from, as the file browser names it.
   * @param run - the command line.
   * @param values - initial texts of the options, by name.
   */
  constructor(
    server: ITransport,
    readonly folder: string,
    run = '',
    values: Readonly<Record<string, string>> = {}
  ) {
    super(server, values, run);
  }

  override takes(option: string): boolean {
    return option === PARAMETERS ? this._isNotebook : option !== OUTPUTS && super.takes(option);
  }

  setRun(run: string): void {
    this.change({ run, ...this.answered(RUN) });
  }

  /** A template's command line is taken where there is none; its job is named after the template. */
  override start(template: Template | null): void {
    const takesRun = template?.run && !this.state.run.trim();
    super.start(takesRun ? { ...template, options: { name: template.name, ...template.options } } : template);
    if (takesRun) {
      this.setRun(template.run);
    }
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

/** A job once more: its program and its files, with other options. */
export class CloneSubmission extends Submission<Sent> {
  private constructor(
    server: ITransport,
    readonly like: { readonly id: string; readonly name: string },
    /** Whether it runs a cell or a notebook, whose command line is not the user's. */
    readonly fixed: boolean,
    run: string,
    values: Record<string, string>
  ) {
    super(server, values, run);
  }

  /** A submission that starts from the options of a job. */
  static async of(server: ITransport, job: { id: string; name: string }): Promise<CloneSubmission> {
    const path = `form?${new URLSearchParams({ job: job.id })}`;
    const form = await asked<{ run: string; fixed: boolean; options: Record<string, string> }>(server, path, {});
    return new CloneSubmission(server, job, form.fixed, form.run, form.options);
  }

  override takes(option: string): boolean {
    return !OF_FILES.has(option) && super.takes(option);
  }

  setRun(run: string): void {
    this.change({ run, ...this.answered(RUN) });
  }

  /** The files are those of the job. */
  look(): Promise<void> {
    return Promise.resolve();
  }

  protected ask(options: Record<string, string>): Promise<Sent> {
    return asked<Sent>(this.server, 'jobs', { method: 'POST', body: JSON.stringify({ ...this.runs, options }) });
  }

  protected get runs(): object {
    return { like: this.like.id, run: this.state.run };
  }
}
