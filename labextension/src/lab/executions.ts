/**
 * Marks each execution that this page requests, so that the kernel knows that its front end shows jobs as live cards.
 * Another front end of the same kernel marks nothing, and gets a widget.
 */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import type { Kernel } from '@jupyterlab/services';

/** A key in the metadata of an execute request; `jupyter_ext/frontend.py` reads it. */
const MARK = 'runai_renderer';

/** Marks the executions of all kernels that `kernels` connects to from now on. */
export function markExecutions(kernels: Pick<Kernel.IManager, 'connectTo'>): void {
  const connectTo = kernels.connectTo.bind(kernels);
  kernels.connectTo = options => {
    const kernel = connectTo(options);
    const requestExecute = kernel.requestExecute.bind(kernel);
    kernel.requestExecute = (content, disposeOnDone, metadata) =>
      requestExecute(content, disposeOnDone, { ...metadata, [MARK]: true });
    return kernel;
  };
}

export const executionsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-runai:executions',
  description: 'Tells a kernel, with each execution, that this page shows jobs as live cards.',
  autoStart: true,
  activate: ({ serviceManager }: JupyterFrontEnd): void => markExecutions(serviceManager.kernels)
};
