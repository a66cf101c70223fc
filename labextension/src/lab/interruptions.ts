/** Notices of the user's jobs that others pause, from the grace of a job until it runs again. */
import { Notification } from '@jupyterlab/apputils';
import { pauseWords, resumedWords } from '../model/interruptions';
import type { JobView } from '../model/api';
import type { Trans } from '../trans';
import type { IJobActions, IPoolModel } from './tokens';

const HELD = ['starting', 'running'];

interface Shown {
  text: string;
  readonly notice: string;
  /** Ends the updates of the estimated start. */
  readonly release: () => void;
}

/**
 * Each job that is paused while this page is open gets one notice, which follows the estimate of its resumption. The
 * jobs of an array share the notice of the first of them. `wanted`: whether the user wants to be told now.
 */
export function followInterruptions(
  model: IPoolModel,
  actions: IJobActions,
  trans: Trans,
  wanted: () => boolean
): void {
  const shown = new Map<string, Shown>();
  let jobs = model.state.jobs;
  const options = (job: JobView) => ({
    actions: [{ label: trans.__('Open job'), callback: () => actions.openJob(job.id) }]
  });

  const withdraw = (id: string) => {
    const { notice, release } = shown.get(id)!;
    Notification.dismiss(notice);
    release();
    shown.delete(id);
  };

  const look = (job: JobView, known: JobView | undefined) => {
    const before = shown.get(job.id);
    const text = pauseWords(job, Date.now() / 1000, trans);
    if (before && text && before.text !== text) {
      before.text = text;
      Notification.update({ id: before.notice, message: text });
    } else if (before && !text && job.state !== 'starting') {
      withdraw(job.id);
      if (job.state === 'running') {
        Notification.info(resumedWords(job, trans), { ...options(job), autoClose: 8000 });
      }
    } else if (!before && text && known && HELD.includes(known.state) && wanted() && !sharesNotice(job)) {
      const notice = Notification.warning(text, { ...options(job), autoClose: false });
      shown.set(job.id, { text, notice, release: model.show([job.id]) });
    }
  };

  const sharesNotice = ({ array }: JobView) =>
    array !== null && [...shown.keys()].some(id => model.state.jobs.get(id)?.array === array);

  model.stateChanged.connect((_, state) => {
    const known = jobs;
    jobs = state.jobs;
    if (jobs === known) {
      return;
    }
    for (const job of jobs.values()) {
      if (job.mine && job !== known.get(job.id)) {
        look(job, known.get(job.id));
      }
    }
    for (const id of [...shown.keys()].filter(id => !jobs.has(id))) {
      withdraw(id);
    }
  });
}
