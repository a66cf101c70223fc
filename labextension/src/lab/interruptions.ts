/** Notices of the user's jobs that others pause, from the warning or the grace of a job until it runs again. */
import { Notification } from '@jupyterlab/apputils';
import { pauseWords, resumedWords, warningWords } from '../model/interruptions';
import type { JobView } from '../model/api';
import type { Trans } from '../trans';
import type { IJobActions, IPoolModel } from './tokens';

const HELD = ['starting', 'running'];

interface Shown {
  text: string;
  /** Whether the job is only expected to be paused. */
  readonly warns: boolean;
  readonly notice: string;
  /** Ends the updates of the estimated start. */
  readonly release: () => void;
}

/**
 * Each job that is paused while this page is open gets one notice, which follows the estimate of its resumption, and
 * another one before, if a warning precedes. The jobs of an array share the notice of the first of them. `wanted`:
 * whether the user wants to be told now.
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
    const warning = warningWords(job, trans);
    const text = warning ?? pauseWords(job, Date.now() / 1000, trans);
    const warns = warning !== null;
    if (text && shown.get(job.id)?.warns === !warns) {
      withdraw(job.id); // another notice, because the user may have dismissed this one
    }
    const before = shown.get(job.id);
    if (before && text && before.text !== text) {
      before.text = text;
      Notification.update({ id: before.notice, message: text });
    } else if (before && !text && job.state !== 'starting') {
      withdraw(job.id);
      if (job.state === 'running' && !before.warns) {
        Notification.info(resumedWords(job, trans), { ...options(job), autoClose: 8000 });
      }
    } else if (!before && text && known && HELD.includes(known.state) && wanted() && !sharesNotice(job, warns)) {
      const notice = Notification.warning(text, { ...options(job), autoClose: false });
      shown.set(job.id, { text, warns, notice, release: model.show([job.id]) });
    }
  };

  const sharesNotice = ({ array }: JobView, warns: boolean) =>
    array !== null &&
    [...shown].some(([id, notice]) => notice.warns === warns && model.state.jobs.get(id)?.array === array);

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
