/** Users with their build quotas and GPUs, groups, and notebook servers. */
import { useCallback, useEffect, useState, type FormEvent, type ReactElement } from 'react';
import { useNow, useTrans } from '../components/hooks';
import type { Question } from '../components/question';
import type { GroupView, PoolView, UserList, UserView } from '../model/api';
import { amount, duration } from '../model/format';
import type { IPoolModel, PoolState } from '../model/state';
import type { Trans } from '../trans';
import { Card } from './card';
import { QuotaDialog, type QuotaOwner } from './quotadialog';
import { Sessions } from './sessions';
import { Table } from './table';

export interface PeopleViewProps {
  model: IPoolModel;
  state: PoolState;
  pool: PoolView;
  confirm: (question: Question) => Promise<boolean>;
  /** Runs an action and shows the error if it is refused. */
  attempt: (act: () => Promise<void>) => Promise<void>;
}

export function PeopleView({ model, state, pool, confirm, attempt }: PeopleViewProps): ReactElement {
  const trans = useTrans();
  const [find, setFind] = useState('');
  const [list, setList] = useState<UserList | null>(null);
  const [edited, setEdited] = useState<QuotaOwner | null>(null);
  const { client } = model;
  const read = useCallback(
    (before: UserList | null) =>
      attempt(async () => {
        const page = await client.users(find, before?.next ?? null);
        setList({ ...page, users: [...(before?.users ?? []), ...page.users] });
      }),
    [client, find, attempt]
  );
  // Read again when sessions change; jobs change too often for that.
  const leases = state.sessions.map(session => session.id + session.state).join();
  useEffect(() => void read(null), [read, leases]);

  const search = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    setFind(String(new FormData(event.currentTarget).get('find') ?? '').trim());
  };
  return (
    <>
      <Sessions sessions={state.sessions} pool={pool} client={client} confirm={confirm} attempt={attempt} />
      <Card title={trans.__('People')} aside={list && trans._n('%1 user', '%1 users', list.total)}>
        <form className="runai-Find" role="search" aria-label={trans.__('Find people')} onSubmit={search}>
          <input
            name="find"
            aria-label={trans.__('Name or group')}
            placeholder={trans.__('name or group')}
            autoComplete="off"
          />
          <button type="submit" className="runai-Button">
            {trans.__('Find')}
          </button>
        </form>
        {list?.hub_problem && (
          <p className="runai-Empty" role="alert">
            {trans.__('Users whom only the hub knows are missing. %1', list.hub_problem)}
          </p>
        )}
        {list && list.users.length > 0 && <Users users={list.users} edit={setEdited} />}
        {list?.users.length === 0 && <p className="runai-Empty">{trans.__('There are no such users.')}</p>}
        {!list && <p className="runai-Empty">{trans.__('Loading the users…')}</p>}
        {list && list.next !== null && (
          <button type="button" className="runai-Link runai-More" onClick={() => void read(list)}>
            {trans.__('Show more users')}
          </button>
        )}
      </Card>
      {list && list.groups.length > 0 && (
        <Groups groups={list.groups} otherwise={list.default_build_quota} edit={setEdited} />
      )}
      {edited && (
        <QuotaDialog
          owner={edited}
          close={() => setEdited(null)}
          save={async gpus => {
            await client.setBuildQuota(edited.of, edited.name, gpus);
            await read(null);
          }}
        />
      )}
    </>
  );
}

type Edit = (owner: QuotaOwner) => void;

function Users({ users, edit }: { users: readonly UserView[]; edit: Edit }): ReactElement {
  const trans = useTrans();
  const now = useNow();
  const columns = [
    { title: trans.__('User') },
    { title: trans.__('Groups'), className: 'runai-Table-text runai-Wide' },
    { title: trans.__('Build GPUs') },
    { title: trans.__('Build quota') },
    { title: trans.__('Quota from'), className: 'runai-Table-text runai-Wide' },
    { title: trans.__('Train GPUs') },
    { title: trans.__('Queue') },
    { title: trans.__('Last seen'), className: 'runai-Wide' }
  ];
  return (
    <Table columns={columns} edit>
      {users.map(user => (
        <tr key={user.name}>
          <th scope="row">{user.name}</th>
          <td className="runai-Table-text runai-Wide runai-Table-people">{user.groups.join(', ') || '–'}</td>
          <td>{amount(user.build_gpus)}</td>
          <td>{amount(user.build_quota)}</td>
          <td className="runai-Table-text runai-Wide">{sourceOf(user, trans)}</td>
          <td>{amount(user.train_gpus)}</td>
          <td>{user.waiting}</td>
          <td className="runai-Wide">
            {user.last_activity === null ? '–' : trans.__('%1 ago', duration(now - user.last_activity, trans))}
          </td>
          <td className="runai-Table-edit">
            <QuotaButton
              owner={{
                of: 'users',
                name: user.name,
                own: user.build_quota_source === 'user' ? user.build_quota : null,
                now: user.build_quota
              }}
              edit={edit}
            />
          </td>
        </tr>
      ))}
    </Table>
  );
}

interface GroupsProps {
  groups: readonly GroupView[];
  /** The quota of users without a quota of their own. */
  otherwise: number;
  edit: Edit;
}

function Groups({ groups, otherwise, edit }: GroupsProps): ReactElement {
  const trans = useTrans();
  const columns = [
    { title: trans.__('Group') },
    { title: trans.__('Build quota of each user') },
    { title: trans.__('Users') }
  ];
  return (
    <Card title={trans.__('Groups')} aside={trans.__('others may hold %1', amount(otherwise))}>
      <Table columns={columns} edit>
        {groups.map(group => (
          <tr key={group.name}>
            <th scope="row">{group.name}</th>
            <td>{group.build_quota === null ? '–' : amount(group.build_quota)}</td>
            <td>{group.users}</td>
            <td className="runai-Table-edit">
              <QuotaButton
                owner={{ of: 'groups', name: group.name, own: group.build_quota, now: group.build_quota ?? otherwise }}
                edit={edit}
              />
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}

function QuotaButton({ owner, edit }: { owner: QuotaOwner; edit: Edit }): ReactElement {
  const trans = useTrans();
  return (
    <button
      type="button"
      className="runai-Link"
      aria-label={trans.__('Build quota of %1', owner.name)}
      onClick={() => edit(owner)}
    >
      {trans.__('Quota…')}
    </button>
  );
}

function sourceOf(user: UserView, trans: Trans): string {
  const words: Record<UserView['build_quota_source'], string> = {
    user: trans.__('own'),
    group: trans.__('group %1', user.build_quota_group ?? ''),
    default: trans.__('default')
  };
  return words[user.build_quota_source];
}
