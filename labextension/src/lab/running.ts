import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { IRunningSessionManagers, type IRunningSessions } from '@jupyterlab/running';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { verbs } from '../components/job';
import { ordered } from '../components/jobs';
import type { JobView } from '../model/api';
import { places, shape, stateWord } from '../model/format';
import { isFinal } from '../model/state';
import { DOMAIN } from './domain';
import { gpuIcon } from './icon';
import { IJobActions, IPoolModel } from './tokens';

export const runningPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-runai:running',
  description: "Lists the user's jobs among the running sessions.",
  autoStart: true,
  requires: [IPoolModel, IJobActions],
  optional: [IRunningSessionManagers, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    model: IPoolModel,
    actions: IJobActions,
    managers: IRunningSessionManagers | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const runningChanged = new Signal<unknown, unknown>({});
    let shown: string | null = null;
    model.stateChanged.connect(() => {
      // A change redraws the whole list, so signal only visible changes.
      const looks = JSON.stringify(mine(model).map(job => [job.id, job.state, job.name]));
      if (looks !== shown) {
        shown = looks;
        runningChanged.emit(undefined);
      }
    });
    const item = (job: JobView): IRunningSessions.IRunningItem => ({
      label: () => job.name,
      labelTitle: () => [shape(job, trans), places(job, trans)].filter(Boolean).join(' · '),
      detail: () => stateWord(job.state, trans),
      icon: () => gpuIcon,
      open: () => actions.openLog(job),
      ...(verbs(job, model.state.me).includes('cancel') ? { shutdown: () => void actions.act(job, 'cancel') } : {})
    });
    managers?.add({
      name: trans.__('GPU jobs'),
      running: () => mine(model).map(item),
      refreshRunning: () => undefined,
      runningChanged,
      shutdownLabel: trans.__('Cancel the job'),
      shutdownAll: () => {
        for (const job of mine(model)) {
          model.act(job.id, 'cancel').catch((error: Error) => Notification.error(error.message, { autoClose: 8000 }));
        }
      },
      shutdownAllLabel: trans.__('Cancel all my jobs'),
      shutdownAllConfirmationText: trans.__(
        'All your jobs will be cancelled, including those from other notebooks. Anything they have not saved is lost.'
      )
    });
  }
};

function mine(model: IPoolModel): JobView[] {
  const jobs = [...model.state.jobs.values()].filter(job => job.mine && !isFinal(job.state));
  return ordered(jobs).map(one => one.job);
}
