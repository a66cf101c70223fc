/** Loads the variables that a job returned into the kernel of the notebook that shows its card. */
import { Notification, type ISessionContext } from '@jupyterlab/apputils';
import type { Kernel } from '@jupyterlab/services';
import type { Widget } from '@lumino/widgets';
import type { JobView } from '../model/api';
import type { Trans } from '../trans';

const ANSWER = 'loaded';

/** The kernel of the notebook or console that a widget is in; null while there is none. */
export function kernelOf(widget: Widget): Pick<Kernel.IKernelConnection, 'requestExecute'> | null {
  for (let above: Widget | null = widget; above; above = above.parent) {
    if ('sessionContext' in above) {
      return (above.sessionContext as ISessionContext).session?.kernel ?? null;
    }
  }
  return null;
}

/** Says how it ended. The request leaves no trace in the history or the outputs. */
export async function loadResults(widget: Widget, job: JobView, trans: Trans): Promise<void> {
  const kernel = kernelOf(widget);
  if (!kernel) {
    Notification.error(trans.__('This notebook has no kernel. Start one, and load the results again.'));
    return;
  }
  const id = JSON.stringify(job.id); // also Python's literal
  const future = kernel.requestExecute({
    code: '',
    silent: true,
    store_history: false,
    allow_stdin: false,
    stop_on_error: false,
    user_expressions: { [ANSWER]: `__import__('jupyter_ext.handle', fromlist=['_']).Job(${id}).load()` }
  });
  const told = await future.done.then(
    reply => (reply.content as { user_expressions?: Record<string, Answer> }).user_expressions?.[ANSWER],
    () => undefined
  );
  if (told?.status === 'ok') {
    Notification.success(trans.__('Set %1 in this notebook, from %2.', job.outputs.join(', '), job.name), {
      autoClose: 3000
    });
  } else {
    const why = told?.evalue ?? trans.__('The kernel did not answer.');
    Notification.error(trans.__('The results of %1 could not be loaded: %2', job.name, why), { autoClose: 8000 });
  }
}

interface Answer {
  status: string;
  evalue?: string;
}
