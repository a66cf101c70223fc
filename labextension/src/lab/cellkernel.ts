/**
 * Asks the kernel of a notebook what a cell would take along: by an expression of a silent request, which leaves no
 * trace in the history or the outputs, and only while the kernel is idle.
 */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { Along, AlongUnknown, IAlongKernel } from '../model/along';

const ANSWER = 'along';

type Notebook = Pick<ISessionContext, 'session' | 'statusChanged' | 'kernelChanged'>;

export class CellKernel implements IAlongKernel {
  constructor(private readonly _notebook: Notebook) {}

  async goesAlong(
    line: string,
    cell: string,
    signal: AbortSignal,
    waits: () => void
  ): Promise<Along | AlongUnknown | null> {
    while (!signal.aborted) {
      if (!this._isIdle) {
        waits();
        await this._idle(signal);
        continue;
      }
      const content = await this._ask(line, cell);
      if (content?.status === 'ok' || content?.status === 'error') {
        return answerOf(content.user_expressions?.[ANSWER]);
      } // else a cell before it failed, or the kernel was restarted
    }
    return null;
  }

  private get _isIdle(): boolean {
    return this._notebook.session?.kernel?.status === 'idle';
  }

  private _idle(signal: AbortSignal): Promise<void> {
    const { statusChanged, kernelChanged } = this._notebook;
    return new Promise(resolve => {
      const look = () => {
        if (this._isIdle || signal.aborted) {
          statusChanged.disconnect(look);
          kernelChanged.disconnect(look);
          signal.removeEventListener('abort', look);
          resolve();
        }
      };
      statusChanged.connect(look);
      kernelChanged.connect(look);
      signal.addEventListener('abort', look);
      look();
    });
  }

  private async _ask(line: string, cell: string): Promise<Reply | null> {
    const asked = [line, cell].map(text => JSON.stringify(text)).join(', '); // also Python's literals
    const future = this._notebook.session!.kernel!.requestExecute({
      code: '',
      silent: true,
      store_history: false,
      allow_stdin: false,
      stop_on_error: false,
      user_expressions: { [ANSWER]: `__import__('jupyter_ext.kernel_form', fromlist=['_']).goes_along(${asked})` }
    });
    return future.done.then(
      reply => reply.content as unknown as Reply,
      () => null
    );
  }
}

interface Reply {
  status: string;
  user_expressions?: Record<string, Shown | undefined>;
}

interface Shown {
  status: string;
  data?: Record<string, unknown>;
  evalue?: string;
}

function answerOf(shown: Shown | undefined): Along | AlongUnknown | null {
  if (shown?.status === 'error') {
    return { problem: `The kernel cannot say what goes along: ${shown.evalue ?? ''}.` };
  }
  return (shown?.data?.['application/json'] as Along | AlongUnknown | undefined) ?? null;
}
