/** What is asked before something that can't be undone: the same words wherever it is asked. */
import type { JobView } from '../model/api';
import type { JobVerb } from '../model/client';
import { isFinal } from '../model/state';
import type { Trans } from '../trans';

export interface Question {
  readonly title: string;
  readonly body: string;
  readonly yes: string;
  readonly no: string;
}

/** Null where nothing needs to be asked. */
export function questionOf(job: JobView, verb: JobVerb, trans: Trans): Question | null {
  const whose = job.mine ? job.name : trans.__('%1 of %2', job.name, job.user);
  const no = trans.__('Keep it');
  if (verb === 'cancel') {
    const body = ['queued', 'paused'].includes(job.state)
      ? trans.__('The job will be removed from the queue.')
      : trans.__('The job will stop. Anything it has not saved is lost.');
    return { title: trans.__('Cancel %1?', whose), body, yes: trans.__('Cancel the job'), no };
  }
  if (verb === 'delete' && isFinal(job.state)) {
    const body = trans.__('Its log, files and checkpoints will be deleted, too. This cannot be undone.');
    return { title: trans.__('Delete %1?', whose), body, yes: trans.__('Delete the job'), no };
  }
  return null;
}
