/** Templates: named sets of options, which `--template` uses too. */
import { asked } from './asked';
import type { ITransport } from './transport';

export interface Template {
  name: string;
  /** Whether it is the user's; else an administrator's. */
  own: boolean;
  /** A command line; may be empty. */
  run: string;
  /** The texts of options, by name. */
  options: Record<string, string>;
  /** Its keys that have no field in the form. */
  left_out: string[];
  /** Why it cannot be used; empty if it can. */
  problem: string;
}

export class Templates {
  constructor(private readonly _server: ITransport) {}

  load(): Promise<Template[]> {
    return asked<Template[]>(this._server, 'templates', {});
  }

  /** Keeps options under a name. Throws a `PoolError` with the field at fault. */
  keep(name: string, options: Readonly<Record<string, string>>): Promise<Template[]> {
    return asked<Template[]>(this._server, 'templates', { method: 'POST', body: JSON.stringify({ name, options }) });
  }
}
