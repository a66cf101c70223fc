/** Why a job is in its state, as in `jupyter runai explain`; read again when the job or the queue changes. */
import { useEffect, useState, type ReactElement } from 'react';
import type { Explanation, Holder, JobView } from '../model/api';
import type { Client } from '../model/client';
import { amount, clock, duration } from '../model/format';
import type { Trans } from '../trans';
import { useTrans } from './hooks';

export function Why({ client, job, now }: { client: Client; job: JobView; now: number }): ReactElement {
  const trans = useTrans();
  const [found, setFound] = useState<Explanation | string | null>(null);
  const { id, state, reason, position, estimated_start: start } = job;
  useEffect(() => {
    let current = true;
    client.explain(id).then(
      told => current && setFound(told),
      (error: Error) => current && setFound(error.message)
    );
    return () => {
      current = false;
    };
  }, [client, id, state, reason, position, start]);
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
      {found.would_help.length > 0 && (
        <>
          <h3>{trans.__('What would help')}</h3>
          <ul>
            {found.would_help.map(sentence => (
              <li key={sentence}>{sentence}</li>
            ))}
          </ul>
        </>
      )}
      {facts.length === 0 && <div className="runai-Hint">{trans.__('The job is not waiting for anything.')}</div>}
    </div>
  );
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
