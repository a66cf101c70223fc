/** All notebook servers with a lease or in line for one: owner, GPUs and their use. Administrators can stop them. */
import { useCallback, useEffect, useState, type ReactElement } from 'react';
import { useNow, useTrans } from '../components/hooks';
import type { Question } from '../components/question';
import type { PoolView, SessionList, SessionView } from '../model/api';
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
  const [list, read] = useSessions(client);
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
                <td>{idleFor(session, now, trans)}</td>
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

function idleFor({ idle_since, stops_at, stops_because }: SessionView, now: number, trans: Trans): string {
  const stops = stops_at === null ? '' : clock(stops_at, now);
  if (idle_since === null || (now - idle_since < PAUSE && stops_because !== 'idle')) {
    return stops ? trans.__('stops at %1', stops) : '–';
  }
  const idle = duration(now - idle_since, trans);
  return stops ? trans.__('%1, stops at %2', idle, stops) : idle;
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
function placesOf({ workers }: SessionView, trans: Trans): string {
  return workers
    .filter(worker => worker.gpus.length > 0)
    .map(worker => trans.__('%1 GPU %2', worker.node, ranges(worker.gpus)))
    .join(', ');
}

function usedBy(session: SessionView, pool: PoolView): string {
  const held = session.workers.flatMap(worker => {
    const node = pool.nodes.find(one => one.name === worker.node);
    return node?.gpus.filter(gpu => worker.gpus.includes(gpu.index)) ?? [];
  });
  const uses = held.flatMap(gpu => gpu.utilisation ?? []);
  return uses.length ? percent(uses.reduce((sum, use) => sum + use, 0) / uses.length) : '–';
}

const LOOK = 15_000;

const NONE: SessionList = { sessions: [], line: [] };

/** The sessions with their idle times and those in line. They are polled, because no event reports either. */
function useSessions(client: Client): [SessionList, () => Promise<void>] {
  const [list, setList] = useState(NONE);
  const read = useCallback(
    () => client.sessions().then(setList, () => undefined), // the page already shows that the connection is lost
    [client]
  );
  useEffect(() => {
    void read();
    const timer = setInterval(() => document.hidden || void read(), LOOK);
    return () => clearInterval(timer);
  }, [read]);
  return [list, read];
}
