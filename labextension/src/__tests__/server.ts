/** The user's own server behind the transport: it records the submitted forms and returns the responses set here. */
import type { DryRunView } from '../model/api';
import type { Sent } from '../model/submission';
import type { Template } from '../model/templates';
import type { ITransport } from '../model/transport';

export const SENT: Sent = {
  id: 'j-1',
  name: 'train.py',
  project: 'vision',
  jobs: 1,
  next_run: null,
  files: ''
};

/** The dry run of a job that starts at once. */
export const STARTS: DryRunView = {
  starts: true,
  after: 0,
  over_quota: false,
  reason: '',
  estimated_start: null,
  earliest_start: null,
  latest_start: null,
  not_before: null
};

export interface Form {
  folder: string;
  run: string;
  options: Record<string, string>;
}

export class Server implements ITransport {
  readonly forms: Form[] = [];
  readonly looked: string[] = [];
  readonly tried: Form[] = [];
  /** The result of a dry run. */
  dryRun: DryRunView = { ...STARTS };
  /** The templates, to which those of forms are added. */
  templates: Template[] = [];
  /** The error for the next form: a sentence and the field at fault. */
  refuses: [string, string | null][] = [];
  /** Awaited before a form is answered. */
  before: Promise<void> = Promise.resolve();
  down = false;

  async send(path: string, init: RequestInit = {}): Promise<Response> {
    if (this.down) {
      throw new TypeError('Failed to fetch');
    }
    if (path.startsWith('files')) {
      this.looked.push(path);
      return json({ files: path.includes('in=') ? 1 : 2, size: 62 });
    }
    if (path.startsWith('form')) {
      return json({ run: 'train.py --epochs 3', fixed: false, options: { gpus: '2' } });
    }
    if (path === 'line') {
      return this._line(JSON.parse(init.body as string) as { line: string; options?: Record<string, string> });
    }
    if (path === 'templates') {
      return this._templates(init.body as string | undefined);
    }
    if (path === 'dry-run') {
      this.tried.push(JSON.parse(init.body as string) as Form);
      return this._refused() ?? json(this.dryRun);
    }
    this.forms.push(JSON.parse(init.body as string) as Form);
    await this.before;
    return this._refused() ?? json(SENT, 201);
  }

  private _line({ line, options }: { line: string; options?: Record<string, string> }): Response {
    if (!options) {
      const gpus = /--gpus (\S+)/.exec(line);
      return json({ options: gpus ? { gpus: gpus[1] } : {} });
    }
    const words = Object.entries(options).map(([name, text]) => ` --${name} ${text}`);
    return this._refused() ?? json({ line: ['%%runai_train', ...words].join('') });
  }

  private _templates(body?: string): Response {
    const refused = body && this._refused();
    if (body && !refused) {
      const kept = JSON.parse(body) as { name: string; options: Record<string, string> };
      this.templates = [...this.templates, { ...kept, own: true, run: '', left_out: [], problem: '' }];
    }
    return refused || json(this.templates);
  }

  private _refused(): Response | null {
    const refused = this.refuses.shift();
    return refused ? json({ detail: refused[0], field: refused[1], status: 422 }, 422) : null;
  }
}

function json(body: unknown, status = 200): Response {
  return new Response(JSON.stringify(body), { status });
}
