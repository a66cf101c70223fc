/**
 * What the scheduler decided, with its reasons, and which GPUs failed: the newest first, and as one what happened to
 * several jobs.
 */
import { useContext, useEffect, useMemo, useState, type ReactElement } from 'react';
import { StillContext, useFrozen, useNow, useTrans } from '../components/hooks';
import type { AuditEntry, JobView, SessionView } from '../model/api';
import { decisionsOf, type Decided } from '../model/decisions';
import { clock, gpus } from '../model/format';
import type { IPoolModel, PoolState } from '../model/state';
import type { Trans } from '../trans';
import { jobAddress } from './address';
import { Card } from './card';
import { failingGpus, failureWords } from './failing';

const MOST = 6;
const NAMED = 2;
/** How many of the jobs that hold GPUs are read where the page has not loaded all unfinished ones. */
const HOLDING = 100;

export function Decisions({ model, state }: { model: IPoolModel; state: PoolState }): ReactElement {
  const trans = useTrans();
  const now = useNow();
  const loaded = state.pool !== null;
  const incomplete = loaded && !state.hasAllUnfinished;
  useEffect(() => {
    if (incomplete) {
      // With a long queue, the jobs that started are older than those that the page has read.
      void model.client
        .jobs({ states: ['starting', 'running', 'stopping'], sort: 'started', order: 'desc', limit: HOLDING })
        .then(
          page => model.know(page.jobs),
          () => undefined // the page already shows a lost connection
        );
    }
  }, [model, incomplete]);
  const failures = useFailures(model, state);
  const latest = useMemo(() => {
    const jobs = decisionsOf(state.jobs.values(), MOST);
    return [...jobs, ...idleServers(state.sessions), ...failures].sort((a, b) => b.at - a.at).slice(0, MOST);
  }, [state.jobs, state.sessions, failures]);
  const shown = useFrozen(latest, useContext(StillContext));
  return (
    <Card title={trans.__('Decisions')} aside={trans.__('newest first')}>
      {shown.length > 0 ? (
        <ol className="runai-Decisions">
          {shown.map(one => (
            <li key={`${one.kind}/${one.at}/${subjectOf(one)}`} data-decision={one.kind}>
              <time dateTime={new Date(1000 * one.at).toISOString()}>{clock(one.at, now)}</time>{' '}
              {'session' in one ? (
                serverWords(one, trans)
              ) : 'name' in one ? (
                trans.__('GPU %1', failureWords(one, trans))
              ) : (
                <>
                  <Subject jobs={one.jobs} /> {words(one, trans)}
                </>
              )}
            </li>
          ))}
        </ol>
      ) : (
        <p className="runai-Empty">{trans.__('Nothing has been decided yet.')}</p>
      )}
    </Card>
  );
}

function subjectOf(one: Decided | IdleServer | AuditEntry): string {
  return 'session' in one ? one.session.id : 'name' in one ? one.name : one.jobs[0]!.id;
}

/** The GPUs that failed or work again, as the audit has them: it is read when other ones fail. */
function useFailures({ client }: IPoolModel, { me, pool }: PoolState): readonly AuditEntry[] {
  const [entries, setEntries] = useState<readonly AuditEntry[]>([]);
  const admin = me?.admin ?? false;
  const failing = failingGpus(pool)
    .map(({ node, index }) => `${node}/${index}`)
    .join();
  useEffect(() => {
    if (admin) {
      void client.audit({ kind: 'gpu', limit: MOST }).then(
        page => setEntries(page.entries),
        () => undefined // the page already shows a lost connection
      );
    }
  }, [client, admin, failing]);
  return entries;
}

/** What happens to the GPUs of a notebook server that is or was idle. */
interface IdleServer {
  readonly kind: 'lend' | 'recall' | 'take';
  readonly at: number;
  readonly session: SessionView;
}

function idleServers(sessions: readonly SessionView[]): IdleServer[] {
  return sessions.flatMap((session): IdleServer[] => {
    const { lent_since, recalled_since, taken_since } = session;
    const found: [IdleServer['kind'], number | null][] = [
      ['recall', recalled_since],
      ['lend', lent_since],
      ['take', taken_since]
    ];
    return found.flatMap(([kind, at]) => (at === null ? [] : [{ kind, at, session }]));
  });
}

function serverWords({ kind, session: { user, server } }: IdleServer, trans: Trans): string {
  const name = server ? `${user}/${server}` : user;
  switch (kind) {
    case 'lend':
      return trans.__('The notebook server of %1 is idle, and its GPUs are lent to jobs.', name);
    case 'recall':
      return trans.__('The notebook server of %1 is used again, and gets its GPUs back.', name);
    case 'take':
      return trans.__('The notebook server of %1 was idle, and its GPUs were taken back.', name);
  }
}

/** `vision/train-7`, `vision/train-7, train-8 and 38 more jobs`: each a link. */
function Subject({ jobs }: { jobs: readonly JobView[] }): ReactElement {
  const trans = useTrans();
  const named = jobs.slice(0, jobs.length === NAMED + 1 ? jobs.length : NAMED);
  const more = jobs.length - named.length;
  const between = (n: number) =>
    n === 0 ? '' : n === named.length - 1 && more === 0 ? trans.__(' and ') : trans.__(', ');
  return (
    <>
      {named.map((job, n) => (
        <span key={job.id}>
          {between(n)}
          <a href={jobAddress(job.id)} title={trans.__('%1 of %2', job.name, job.user)}>
            {n === 0 ? `${job.project}/${job.name}` : job.name}
          </a>
        </span>
      ))}
      {more > 0 && <span>{trans._n(' and %1 more job', ' and %1 more jobs', more)}</span>}
    </>
  );
}

/** The rest of the sentence that begins with the names of the jobs. */
export function words(decided: Decided, trans: Trans): string {
  const { kind, reason, jobs } = decided;
  switch (kind) {
    case 'start':
      return startWords(decided, trans);
    case 'pause':
      return trans._n('was paused: %2', 'were paused: %2', jobs.length, reason);
    case 'restart':
      return reason.slice(0, 1).toLowerCase() + reason.slice(1);
    case 'stop':
      return trans._n('was stopped: %2', 'were stopped: %2', jobs.length, reason);
    case 'requeue':
      return trans._n('lost a worker: %2', 'lost workers: %2', jobs.length, reason);
    case 'wait':
      return trans._n('waits: %2', 'wait: %2', jobs.length, reason);
  }
}

function startWords({ nodes, gpus: held, again, holding, over }: Decided, trans: Trans): string {
  const where = nodes.length > 2 ? trans.__('%1 nodes', nodes.length) : nodes.join(trans.__(' and '));
  const amount = held > 0 ? gpus(held, trans) : trans.__('no GPU');
  const what = again ? trans.__('resumed on %1 (%2)', where, amount) : trans.__('started on %1 (%2)', where, amount);
  if (holding === 0 || held === 0) {
    return `${what}.`;
  }
  if (over === 0) {
    return trans.__('%1, within the project’s guarantee.', what);
  }
  return over === holding ? trans.__('%1, over quota.', what) : trans.__('%1, %2 of them over quota.', what, over);
}
