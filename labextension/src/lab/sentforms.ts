/** The forms that files were sent with last, kept with the layout of JupyterLab. */
import type { IStateDB } from '@jupyterlab/statedb';
import { OPTIONS } from '../model/options';

const ID = 'jupyter-runai:sent-forms';

/** So many files are remembered. */
const FILES = 50;

/** The options that are remembered: not the environment variables, which may hold secrets. */
const KEPT = new Set(OPTIONS.map(option => option.name).filter(name => name !== 'env'));

/** What stood in a form: the line to run, and what was written by the names of the options. */
export interface SentForm {
  readonly run: string;
  readonly values: Readonly<Record<string, string>>;
}

/** Without a database nothing is remembered. */
export class SentForms {
  constructor(private readonly _state: IStateDB | null) {}

  /** What a file was sent with last. */
  async of(file: string): Promise<SentForm | null> {
    return (await this._forms())[file] ?? null;
  }

  async keep(file: string, form: SentForm): Promise<void> {
    const others = Object.entries(await this._forms()).filter(([other]) => other !== file);
    const values = Object.fromEntries(Object.entries(form.values).filter(([name]) => KEPT.has(name)));
    await this._state?.save(ID, Object.fromEntries([...others, [file, { run: form.run, values }]].slice(-FILES)));
  }

  private async _forms(): Promise<Record<string, SentForm>> {
    return ((await this._state?.fetch(ID)) ?? {}) as unknown as Record<string, SentForm>;
  }
}
