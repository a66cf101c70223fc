import {
  Dialog,
  MainAreaWidget,
  Notification,
  showDialog,
  WidgetTracker
} from '@jupyterlab/apputils';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { JobView } from '../model/api';
import type { JobVerb } from '../model/client';
import { DOMAIN } from './domain';
import { LogWidget } from './logwidget';
import { IJobActions, IPoolModel } from './tokens';

/** The one way in which JupyterLab acts on a job. */
export const actionsPlugin: JupyterFrontEndPlugin<IJobActions> = {
  id: 'jupyter-runai:actions',
  description: 'Acts on jobs of the GPU pool for the panel, the cards and the commands.',
  autoStart: true,
  requires: [IPoolModel],
  optional: [ITranslator],
  provides: IJobActions,
  activate: (
    app: JupyterFrontEnd,
    model: IPoolModel,
    translator: ITranslator | null
  ): IJobActions => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const logs = new WidgetTracker<MainAreaWidget<LogWidget>>({ namespace: 'runai-logs' });

    async function confirmed(job: JobView): Promise<boolean> {
      const result = await showDialog({
        title: trans.__('Cancel %1?', job.name),
        body:
          job.state === 'running'
            ? trans.__('The job is asked to stop and ends; what it has not saved is lost.')
            : trans.__('The job leaves the queue for good.'),
        buttons: [
          Dialog.cancelButton({ label: trans.__('Keep it') }),
          Dialog.warnButton({ label: trans.__('Cancel the job') })
        ],
        defaultButton: 0
      });
      return result.button.accept;
    }

    return {
      async act(job: JobView, verb: JobVerb): Promise<void> {
        if (verb === 'cancel' && !(await confirmed(job))) {
          return;
        }
        try {
          await model.act(job.id, verb);
        } catch (error) {
          Notification.error((error as Error).message, { autoClose: 8000 });
        }
      },

      openLog(job: JobView): void {
        let widget = logs.find(other => other.content.job === job.id);
        if (!widget) {
          widget = new MainAreaWidget({ content: new LogWidget(model, job, trans) });
          void logs.add(widget);
          app.shell.add(widget, 'main', { mode: 'split-bottom' });
        }
        app.shell.activateById(widget.id);
      }
    };
  }
};
