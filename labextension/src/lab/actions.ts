import { Dialog, InputDialog, MainAreaWidget, Notification, showDialog, WidgetTracker } from '@jupyterlab/apputils';
import { ILayoutRestorer, type JupyterFrontEnd, type JupyterFrontEndPlugin } from '@jupyterlab/application';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import {
  questionBefore,
  questionOfCloned,
  questionOfGroup,
  questionOfSchedule,
  type Question
} from '../components/question';
import type { JobView, NotebookCellSubmit, ScheduleView } from '../model/api';
import { cancelAll } from '../model/cancelling';
import type { JobVerb, ScheduleVerb } from '../model/client';
import type { JobGroup } from '../model/groups';
import { CloneSubmission } from '../model/submission';
import { DOMAIN } from './domain';
import { JobWidget } from './jobwidget';
import { LogWidget } from './logwidget';
import { openCell } from './opencell';
import { sendByDialog } from './submit';
import { IJobActions, IPoolModel, OPEN_JOB } from './tokens';
import { ServerTransport } from './transport';

/** The actions on jobs, as JupyterLab performs them. */
export const actionsPlugin: JupyterFrontEndPlugin<IJobActions> = {
  id: 'jupyter-runai:actions',
  description: 'Performs actions on jobs of the GPU pool for the panel, the cards and the commands.',
  autoStart: true,
  requires: [IPoolModel, IDocumentManager],
  optional: [ITranslator, ILayoutRestorer],
  provides: IJobActions,
  activate: (
    app: JupyterFrontEnd,
    model: IPoolModel,
    documents: IDocumentManager,
    translator: ITranslator | null,
    restorer: ILayoutRestorer | null
  ): IJobActions => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const server = new ServerTransport(app.serviceManager.serverSettings, 'runai');
    const logs = new WidgetTracker<MainAreaWidget<LogWidget>>({ namespace: 'runai-logs' });

    const pages = new WidgetTracker<MainAreaWidget<JobWidget>>({ namespace: 'runai-jobs' });
    void restorer?.restore(pages, {
      command: OPEN_JOB,
      args: widget => ({ id: widget.content.job }),
      name: widget => widget.content.job
    });

    async function confirmed({ title, body, yes, no }: Question): Promise<boolean> {
      const result = await showDialog({
        title,
        body,
        buttons: [Dialog.cancelButton({ label: no }), Dialog.warnButton({ label: yes })],
        defaultButton: 0
      });
      return result.button.accept;
    }

    const actions: IJobActions = {
      async act(job: JobView, verb: JobVerb): Promise<void> {
        try {
          const question = await questionBefore(model.client, job, verb, trans);
          if (question && !(await confirmed(question))) {
            return;
          }
          await model.act(job.id, verb);
        } catch (error) {
          Notification.error((error as Error).message, { autoClose: 8000 });
        }
      },

      async cancelAll(group: JobGroup): Promise<void> {
        if (await confirmed(questionOfGroup(group, trans))) {
          try {
            const jobs = group.jobs[0]!.array === null ? group.jobs : await model.client.array(group.key);
            await cancelAll(model, jobs);
          } catch (error) {
            Notification.error((error as Error).message, { autoClose: 8000 });
          }
        }
      },

      async changePriority(job: JobView): Promise<void> {
        const { button, value } = await InputDialog.getText({
          title: trans.__('Priority of %1', job.name),
          label: trans.__(
            'From 0 to 1000; in project %1, the highest starts first, and may stop jobs of lower priority.',
            job.project
          ),
          text: String(job.priority),
          pattern: '[0-9]+',
          required: true,
          okLabel: trans.__('Set')
        });
        if (button.accept && value !== null) {
          try {
            await model.client.setPriority(job.id, Number(value));
          } catch (error) {
            Notification.error((error as Error).message, { autoClose: 8000 });
          }
        }
      },

      async clone(job: JobView, options?: Readonly<Record<string, string>>): Promise<void> {
        try {
          const submission = await CloneSubmission.of(server, job);
          Object.entries(options ?? {}).forEach(([name, text]) => submission.set(name, text));
          const sent = await sendByDialog(app, submission, model, trans.__('Clone %1', job.name), trans);
          // With other options it is sent in place of a job that waits.
          if (options && sent?.jobs && (await confirmed(questionOfCloned(job, trans)))) {
            await model.act(job.id, 'cancel');
          }
        } catch (error) {
          Notification.error((error as Error).message, { autoClose: 8000 });
        }
      },

      async actOnSchedule(schedule: ScheduleView, verb: ScheduleVerb): Promise<void> {
        if (verb === 'remove' && !(await confirmed(questionOfSchedule(schedule, trans)))) {
          return;
        }
        try {
          if (verb === 'remove') {
            await model.client.removeSchedule(schedule.id);
          } else if (verb === 'run') {
            await model.client.runSchedule(schedule.id);
          } else {
            await model.client.pauseSchedule(schedule.id, verb === 'pause');
          }
        } catch (error) {
          Notification.error((error as Error).message, { autoClose: 8000 });
        }
      },

      openJob(id: string): void {
        let widget = pages.find(other => other.content.job === id);
        if (!widget) {
          widget = new MainAreaWidget({ content: new JobWidget(id, model, actions, trans) });
          void pages.add(widget);
          app.shell.add(widget, 'main');
        }
        app.shell.activateById(widget.id);
      },

      async openCell(cell: NotebookCellSubmit): Promise<void> {
        try {
          await openCell(app, documents, cell, trans);
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
    return actions;
  }
};
