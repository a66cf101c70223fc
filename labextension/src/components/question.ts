/** What is asked before something that can't be undone: the same words wherever it is asked. */
import type { JobView } from '../model/api';
import type { JobVerb } from '../model/client';
import { isFinal } from '../model/pool';
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
      ? trans.__('The job leaves the queue for good.')
      : trans.__('The job is asked to stop and ends; what it has not saved is lost.');
    return { title: trans.__('Cancel %1?', whose), body, yes: trans.__('Cancel the job'), no };
  }
  if (verb === 'delete' && isFinal(job.state)) {
    const body = trans.__('Its log, its files and its checkpoints go with it, for good.');
    return { title: trans.__('Delete %1?', whose), body, yes: trans.__('Delete the job'), no };
  }
  return null;
}
