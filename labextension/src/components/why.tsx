/** Why a job is in its state, as in `jupyter runai explain`; read again when the job or the queue changes. */
import { useEffect, useState, type ReactElement } from 'react';
import type { Explanation, Holder, JobView, RemedyAction } from '../model/api';
import { amount, clock, duration } from '../model/format';
import type { IPoolModel } from '../model/state';
import type { Trans } from '../trans';
import { useTrans } from './hooks';
import { ActionIcon, type ActionName } from './icons';
import type { JobActions } from './job';

export interface WhyProps {
  model: IPoolModel;
  job: JobView;
  actions: JobActions;
  now: number;
}

export function Why({ model, job, actions, now }: WhyProps): ReactElement {
  const trans = useTrans();
  const { client } = model;
  const [found, setFound] = useState<Explanation | string | null>(null);
  const { id, state, reason, position, priority, estimated_start: start } = job;
  useEffect(() => {
    let current = true;
    client.explain(id).then(
      told => current && setFound(told),
      (error: Error) => current && setFound(error.message)
    );
    return () => {
      current = false;
    };
  }, [client, id, state, reason, position, priority, start]);
  if (found === null || typeof found === 'string') {
    return <div className="runai-Hint">{found ?? trans.__('Asking the scheduler…')}</div>;
  }
  const facts = factsOf(found, now, trans);
  return (
    <div className="runai-Why">
      {facts.length > 0 && (
        <dl className="runai-Facts">
          {facts.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
      {found.holders.length > 0 && (
        <>
          <h3>{trans.__('Who holds the GPUs that it waits for')}</h3>
          <ul>
            {found.holders.map(holder => (
              <li key={holder.project ?? ''}>{holderInWords(holder, now, trans)}</li>
            ))}
          </ul>
        </>
      )}
      {found.remedies.length > 0 && (
        <>
          <h3>{trans.__('What would help')}</h3>
          <ul>
            {found.remedies.map(({ sentence, action }) => (
              <li key={sentence}>
                {sentence}
                {action && <RemedyButton action={action} model={model} actions={actions} />}
              </li>
            ))}
          </ul>
        </>
      )}
      {facts.length === 0 && <div className="runai-Hint">{trans.__('The job is not waiting for anything.')}</div>}
    </div>
  );
}

interface RemedyButtonProps {
  action: RemedyAction;
  model: IPoolModel;
  actions: JobActions;
}

/** Does what a remedy says; the page asks before. Renders nothing where the page cannot do it. */
function RemedyButton({ action, model, actions }: RemedyButtonProps): ReactElement | null {
  const trans = useTrans();
  const [problem, setProblem] = useState('');
  const { kind, job: id, options } = action;
  if ((kind === 'priority' && !actions.changePriority) || (kind === 'clone' && !actions.clone)) {
    return null;
  }
  const run = async () => {
    const job = await model.follow(id);
    setProblem('');
    if (kind === 'priority') {
      await actions.changePriority?.(job);
    } else if (kind === 'clone') {
      await actions.clone?.(job, options);
    } else {
      await actions.act(job, kind);
    }
  };
  const [icon, words] = remedyInWords(action, trans);
  return (
    <>
      <button
        type="button"
        className="runai-TextAction"
        onClick={() => void run().catch((error: Error) => setProblem(error.message))}
      >
        <ActionIcon name={icon} />
        {words}
      </button>
      {problem && (
        <span className="runai-Hint" role="alert">
          {problem}
        </span>
      )}
    </>
  );
}

function remedyInWords({ kind, name, options }: RemedyAction, trans: Trans): [ActionName, string] {
  switch (kind) {
    case 'resume':
      return ['resume', trans.__('Resume')];
    case 'priority':
      return ['priority', trans.__('Change the priority…')];
    case 'cancel':
      return ['cancel', trans.__('Cancel %1…', name)];
    case 'clone':
      return ['add', cloneInWords(options, trans)];
  }
}

/** What is different in the clone. */
function cloneInWords(options: Readonly<Record<string, string>>, trans: Trans): string {
  const { project, prefer } = options;
  if (project) {
    return trans.__('Clone in project %1…', project);
  }
  if (prefer) {
    return trans.__('Clone with a preference for one %1…', prefer);
  }
  if ('gpu_types' in options) {
    return trans.__('Clone with any GPU type…');
  }
  return 'preemptible' in options ? trans.__('Clone as preemptible…') : trans.__('Clone…');
}

function factsOf(found: Explanation, now: number, trans: Trans): [string, string][] {
  const start = found.estimated_start;
  const facts: [string, string][] = [
    [trans.__('Why'), found.reason],
    [trans.__('Notice'), found.notice],
    [
      trans.__('In line'),
      found.position === null
        ? ''
        : trans.__('number %1 of %2 in project %3', found.position, found.waiting, found.project)
    ],
    [
      trans.__('Start'),
      start === null ? found.estimate : trans.__('about %1. %2', clock(Math.max(start, now), now), found.estimate)
    ],
    [
      trans.__('Run time'),
      found.expected_runtime === null ? '' : trans.__('about %1', duration(found.expected_runtime, trans))
    ],
    [trans.__('Size'), found.size],
    [trans.__('Speed'), found.speed],
    [trans.__('Recent use'), found.recent_use]
  ];
  return facts.filter(([, value]) => value);
}

function holderInWords(holder: Holder, now: number, trans: Trans): string {
  const who = holder.project ?? trans.__('notebooks');
  const jobs = holder.jobs.map(job => {
    const until =
      job.expected_end === null ? '' : trans.__(', until about %1', clock(Math.max(job.expected_end, now), now));
    return trans.__('%1 of %2 (%3%4)', job.name, job.user, amount(job.gpus), until);
  });
  const held = trans._n('%2: %1 GPU', '%2: %1 GPUs', holder.gpus, who);
  return jobs.length ? `${held} – ${jobs.join(', ')}` : held;
}
