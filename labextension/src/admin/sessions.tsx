/** All notebook servers with a lease or in line for one: owner, GPUs and their use. Administrators can stop them. */
import { useCallback, useEffect, useState, type ReactElement } from 'react';
import { useNow, useTrans } from '../components/hooks';
import type { Question } from '../components/question';
import type { GpuView, PoolView, SessionList, SessionView } from '../model/api';
import type { Client } from '../model/client';
import { amount, clock, duration, percent, ranges } from '../model/format';
import type { Trans } from '../trans';
import { Card } from './card';
import { Table } from './table';

export interface SessionsProps {
  sessions: readonly SessionView[];
  pool: PoolView;
  client: Client;
  confirm: (question: Question) => Promise<boolean>;
  /** Runs an action and shows the error if it is refused. */
  attempt: (act: () => Promise<void>) => Promise<void>;
}

export function Sessions({ sessions, pool, client, confirm, attempt }: SessionsProps): ReactElement {
  const trans = useTrans();
  const now = useNow();
  const [list, read] = useSessions(client, sessions);
  const stop = async (session: SessionView) => {
    if (await confirm(session.position === null ? questionOf(session, trans) : removal(session, trans))) {
      await attempt(() => client.stopSession(session.id));
      await read();
    }
  };
  const columns = [
    { title: trans.__('User') },
    { title: trans.__('Server'), className: 'runai-Table-text runai-Wide' },
    { title: trans.__('GPUs') },
    { title: trans.__('Where'), className: 'runai-Table-text runai-Wide' },
    { title: trans.__('Used'), className: 'runai-Wide' },
    { title: trans.__('Idle for') },
    { title: trans.__('Started') }
  ];
  const idle = new Map(list.sessions.map(session => [session.id, session.idle_since]));
  const leased = sessions
    .filter(session => session.state === 'leased')
    .map(session => ({ ...session, idle_since: idle.get(session.id) ?? null }));
  return (
    <>
      <Card title={trans.__('Sessions')} aside={trans.__('notebook servers that hold GPUs')}>
        {leased.length > 0 ? (
          <Table columns={columns} edit>
            {leased.map(session => (
              <tr key={session.id}>
                <th scope="row">{session.user}</th>
                <td className="runai-Table-text runai-Wide">{session.server || trans.__('default')}</td>
                <td>{amount(session.gpus)}</td>
                <td className="runai-Table-text runai-Wide">{placesOf(session, trans) || '–'}</td>
                <td className="runai-Wide">{usedBy(session, pool)}</td>
                <td>
                  {idleFor(session, now, trans)}
                  <LentTo session={session} pool={pool} />
                </td>
                <td>{trans.__('%1 ago', duration(now - (session.started ?? session.requested), trans))}</td>
                <td className="runai-Table-edit">
                  <button
                    type="button"
                    className="runai-Link"
                    aria-label={trans.__('Stop the server of %1', nameOf(session))}
                    onClick={() => void stop(session)}
                  >
                    {trans.__('Stop…')}
                  </button>
                </td>
              </tr>
            ))}
          </Table>
        ) : (
          <p className="runai-Empty">{trans.__('No notebook server holds a GPU.')}</p>
        )}
      </Card>
      {list.line.length > 0 && <Line line={list.line} stop={stop} />}
    </>
  );
}

interface LineProps {
  line: readonly SessionView[];
  stop: (session: SessionView) => Promise<void>;
}

function Line({ line, stop }: LineProps): ReactElement {
  const trans = useTrans();
  const now = useNow();
  const columns = [
    { title: trans.__('User') },
    { title: trans.__('Server'), className: 'runai-Table-text runai-Wide' },
    { title: trans.__('GPUs') },
    { title: trans.__('Place') },
    { title: trans.__('Waits for') },
    { title: trans.__('Likely start') }
  ];
  return (
    <Card title={trans.__('In line')} aside={trans.__('notebook servers that wait for GPUs')}>
      <Table columns={columns} edit>
        {line.map(session => (
          <tr key={session.id}>
            <th scope="row">{session.user}</th>
            <td className="runai-Table-text runai-Wide">{session.server || trans.__('default')}</td>
            <td>{amount(session.gpus)}</td>
            <td>{session.position}</td>
            <td>{duration(now - session.requested, trans)}</td>
            <td>{session.estimated_start === null ? '–' : clock(session.estimated_start, now)}</td>
            <td className="runai-Table-edit">
              <button
                type="button"
                className="runai-Link"
                aria-label={trans.__('Remove the server of %1 from the line', nameOf(session))}
                onClick={() => void stop(session)}
              >
                {trans.__('Remove…')}
              </button>
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}

/** The shortest time that is shown as idle, in seconds. */
const PAUSE = 60;

function idleFor(session: SessionView, now: number, trans: Trans): string {
  const { idle_since, stops_at, stops_because, lends_at } = session;
  const ends = stops_at === null || session.taken_since !== null ? '' : endOf(session, clock(stops_at, now), trans);
  if (idle_since === null || (now - idle_since < PAUSE && stops_because !== 'idle')) {
    return ends || '–';
  }
  const lends = lends_at === null ? '' : trans.__('lent at %1', clock(lends_at, now));
  return [duration(now - idle_since, trans), lends, ends].filter(Boolean).join(', ');
}

function endOf({ takes_back }: SessionView, at: string, trans: Trans): string {
  return takes_back ? trans.__('GPUs taken back at %1', at) : trans.__('stops at %1', at);
}

/** What became of the GPUs of an idle server: `lent to train-resnet since 14:10`. */
function LentTo({ session, pool }: { session: SessionView; pool: PoolView }): ReactElement | null {
  const trans = useTrans();
  const now = useNow();
  const { lent_since, recalled_since, taken_since } = session;
  const jobs = [...new Set(gpusOf(session.lent, pool).flatMap(gpu => gpu.occupants.map(one => one.name ?? one.id)))];
  const names = jobs.filter(Boolean).join(', ');
  const words =
    recalled_since !== null
      ? trans.__('gets its GPUs back from %1', names || trans.__('jobs'))
      : lent_since !== null
        ? names
          ? trans.__('lent to %1 since %2', names, clock(lent_since, now))
          : trans.__('to be lent since %1, to no job yet', clock(lent_since, now))
        : taken_since !== null
          ? trans.__('GPUs taken back at %1', clock(taken_since, now))
          : null;
  return words === null ? null : <div className="runai-Hint">{words}</div>;
}

function nameOf({ user, server }: SessionView): string {
  return server ? `${user}/${server}` : user;
}

function questionOf(session: SessionView, trans: Trans): Question {
  return {
    title: trans.__('Stop the server of %1?', nameOf(session)),
    body: trans.__('Its kernels end, and what they have not saved is lost. Its GPUs are free for others.'),
    yes: trans.__('Stop the server'),
    no: trans.__('Keep it')
  };
}

function removal(session: SessionView, trans: Trans): Question {
  return {
    title: trans.__('Remove the server of %1 from the line?', nameOf(session)),
    body: trans.__('Its start fails. Its owner can start it again, at the end of the line.'),
    yes: trans.__('Remove'),
    no: trans.__('Keep it')
  };
}

/** `n3 GPU 0–1, n4 GPU 0` */
function placesOf({ workers, lent }: SessionView, trans: Trans): string {
  return [...workers, ...lent]
    .filter(worker => worker.gpus.length > 0)
    .map(worker => trans.__('%1 GPU %2', worker.node, ranges(worker.gpus)))
    .join(', ');
}

function gpusOf(workers: SessionView['workers'], pool: PoolView): GpuView[] {
  return workers.flatMap(worker => {
    const node = pool.nodes.find(one => one.name === worker.node);
    return node?.gpus.filter(gpu => worker.gpus.includes(gpu.index)) ?? [];
  });
}

function usedBy(session: SessionView, pool: PoolView): string {
  const uses = gpusOf(session.workers, pool).flatMap(gpu => (gpu.declared ? [] : (gpu.utilisation ?? [])));
  return uses.length ? percent(uses.reduce((sum, use) => sum + use, 0) / uses.length) : '–';
}

const LOOK = 15_000;

const NONE: SessionList = { sessions: [], line: [] };

/** The sessions with their idle times, and those in line. No event reports when a server becomes idle. */
function useSessions(client: Client, sessions: readonly SessionView[]): [SessionList, () => Promise<void>] {
  const [list, setList] = useState(NONE);
  const read = useCallback(
    () => client.sessions().then(setList, () => undefined), // the page already shows that the connection is lost
    [client]
  );
  useEffect(() => {
    void read();
    const timer = setInterval(() => document.hidden || void read(), LOOK);
    return () => clearInterval(timer);
  }, [read, sessions]);
  return [list, read];
}
