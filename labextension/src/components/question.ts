/** The questions before actions that lose something, the same on every page. */
import type { JobView, ScheduleView } from '../model/api';
import type { Client, JobVerb } from '../model/client';
import type { JobGroup } from '../model/groups';
import { isFinal } from '../model/state';
import type { Trans } from '../trans';

export interface Question {
  readonly title: string;
  readonly body: string;
  readonly yes: string;
  readonly no: string;
}

/** The question before an action; null if none is needed. The job is read again where its last checkpoint matters, which
 * no event reports. */
export async function questionBefore(client: Client, job: JobView, verb: JobVerb, trans: Trans) {
  return questionOf(verb === 'pause' ? await client.job(job.id) : job, verb, trans);
}

function questionOf(job: JobView, verb: JobVerb, trans: Trans): Question | null {
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
  if (verb === 'pause' && ['running', 'starting'].includes(job.state) && job.checkpointed === null) {
    const body = trans.__(
      'It has not saved a checkpoint yet. Unless it saves one when it is told to stop, it starts from the beginning when it is resumed.'
    );
    return {
      title: trans.__('Pause %1?', whose),
      body,
      yes: trans.__('Pause the job'),
      no: trans.__('Keep it running')
    };
  }
  return null;
}

/** The question after a clone has been sent that may start where the job itself waits. */
export function questionOfCloned({ name }: JobView, trans: Trans): Question {
  return {
    title: trans.__('Cancel %1?', name),
    body: trans.__('Its clone has been sent. If you keep %1 in the queue, too, both will run.', name),
    yes: trans.__('Cancel the job'),
    no: trans.__('Keep it')
  };
}

/** The question before a schedule is removed. */
export function questionOfSchedule({ name }: ScheduleView, trans: Trans): Question {
  return {
    title: trans.__('Remove the schedule %1?', name),
    body: trans.__('It will submit no more jobs. The jobs that it has submitted stay.'),
    yes: trans.__('Remove the schedule'),
    no: trans.__('Keep it')
  };
}

/** The question before all jobs of a group are cancelled. */
export function questionOfGroup({ name, jobs, size }: JobGroup, trans: Trans): Question {
  const stops = trans.__(
    'The jobs that have not ended will stop or leave the queue. Anything they have not saved is lost.'
  );
  // A search is driven by its notebook, which can submit more trials.
  const search = trans.__(
    'The notebook that drives this search may send further trials; run _job.cancel() there to end it.'
  );
  return {
    title: trans._n('Cancel %2?', 'Cancel all %1 jobs of %2?', Math.max(size, jobs.length), name),
    body: jobs[0]!.array === null ? `${stops} ${search}` : stops,
    yes: trans.__('Cancel the jobs'),
    no: trans.__('Keep them')
  };
}
