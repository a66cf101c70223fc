/** The last form that each file was submitted with, stored with the layout of JupyterLab. */
import type { IStateDB } from '@jupyterlab/statedb';
import { OPTIONS } from '../model/options';
import { SCHEDULE, TIME_ZONE } from '../model/submission';

const ID = 'jupyter-runai:sent-forms';

/** The number of files to remember. */
const FILES = 50;

/** Not remembered: environment variables, which may hold secrets, and the times of a schedule. */
const LEFT_OUT = ['env', SCHEDULE, TIME_ZONE];
const KEPT = new Set(OPTIONS.map(option => option.name).filter(name => !LEFT_OUT.includes(name)));

/** The content of a form: the command line, and the options by name. */
export interface SentForm {
  readonly run: string;
  readonly values: Readonly<Record<string, string>>;
}

/** Without a database nothing is remembered. */
export class SentForms {
  constructor(private readonly _state: IStateDB | null) {}

  /** The last form of a file. */
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
