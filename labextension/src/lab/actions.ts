import { Dialog, MainAreaWidget, Notification, showDialog, WidgetTracker } from '@jupyterlab/apputils';
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { questionOf, type Question } from '../components/question';
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
  activate: (app: JupyterFrontEnd, model: IPoolModel, translator: ITranslator | null): IJobActions => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const logs = new WidgetTracker<MainAreaWidget<LogWidget>>({ namespace: 'runai-logs' });

    async function confirmed({ title, body, yes, no }: Question): Promise<boolean> {
      const result = await showDialog({
        title,
        body,
        buttons: [Dialog.cancelButton({ label: no }), Dialog.warnButton({ label: yes })],
        defaultButton: 0
      });
      return result.button.accept;
    }

    return {
      async act(job: JobView, verb: JobVerb): Promise<void> {
        const question = questionOf(job, verb, trans);
        if (question && !(await confirmed(question))) {
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
