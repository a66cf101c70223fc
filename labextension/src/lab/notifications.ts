import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { JobView } from '../model/api';
import { duration, elapsed } from '../model/format';
import type { Trans } from '../trans';
import { DOMAIN } from './domain';
import { IJobActions, IPoolModel } from './tokens';

/** Jobs shorter than this need no notice: whoever sent them still looks at them. */
const SHORT = 30;

export const notificationsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-runai:notifications',
  description: 'Says when a job of the user has ended.',
  autoStart: true,
  requires: [IPoolModel, IJobActions],
  optional: [ITranslator],
  activate: (
    _: JupyterFrontEnd,
    model: IPoolModel,
    actions: IJobActions,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    model.jobEnded.connect((_, job) => {
      const ran = elapsed(job, Date.now() / 1000) ?? 0;
      const log = { label: trans.__('Log'), callback: () => actions.openLog(job) };
      if (job.state === 'failed') {
        Notification.error(failed(job, trans), { actions: [log], autoClose: false });
      } else if (job.state === 'succeeded' && ran >= SHORT) {
        Notification.success(trans.__('%1 finished after %2.', job.name, duration(ran, trans)), {
          actions: [log],
          autoClose: 8000
        });
      }
    });
  }
};

function failed(job: JobView, trans: Trans): string {
  return job.reason
    ? trans.__('%1 failed: %2', job.name, job.reason)
    : trans.__('%1 failed.', job.name);
}
