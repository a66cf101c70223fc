/** The audit: who changed what in the pool, and when. */
import { useCallback, useEffect, useState, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { AuditEntry, AuditPage } from '../model/api';
import type { Client } from '../model/client';
import type { Trans } from '../trans';
import { Card } from './card';
import { failureWords } from './failing';
import { changeWords } from './preview';
import { Table } from './table';

export function AuditView({ client }: { client: Client }): ReactElement {
  const trans = useTrans();
  const [page, setPage] = useState<AuditPage | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const read = useCallback(
    async (before: AuditPage | null) => {
      try {
        const found = await client.audit(before?.next ? { after: before.next } : {});
        setPage({ ...found, entries: [...(before?.entries ?? []), ...found.entries] });
        setProblem(null);
      } catch (error) {
        setProblem((error as Error).message);
      }
    },
    [client]
  );
  // Read only once: an update would move the lines under the reader.
  useEffect(() => {
    void read(null);
  }, [read]);
  const columns = [
    { title: trans.__('When') },
    { title: trans.__('Who'), className: 'runai-Table-text' },
    { title: trans.__('What'), className: 'runai-Table-text' }
  ];
  return (
    <Card
      title={trans.__('Audit')}
      aside={trans.__('changes to the pool and to other users’ jobs and sessions, and GPUs that fail; newest first')}
    >
      {page && page.entries.length > 0 && (
        <Table columns={columns}>
          {page.entries.map(entry => (
            <Entry key={entry.id} entry={entry} />
          ))}
        </Table>
      )}
      {page?.entries.length === 0 && <p className="runai-Empty">{trans.__('Nobody has changed the pool yet.')}</p>}
      {!page && !problem && <p className="runai-Empty">{trans.__('Loading the changes…')}</p>}
      {problem && (
        <p className="runai-Empty" role="alert">
          {problem}{' '}
          <button type="button" className="runai-Link" onClick={() => void read(page)}>
            {trans.__('Retry')}
          </button>
        </p>
      )}
      {page && page.next !== null && (
        <button type="button" className="runai-Link runai-More" onClick={() => void read(page)}>
          {trans.__('Show older changes')}
        </button>
      )}
    </Card>
  );
}

const KINDS: Record<AuditEntry['kind'], string> = {
  node_pool: 'node pool',
  project: 'project',
  user: 'user',
  group: 'group',
  job: 'job',
  session: 'session',
  gpu: 'GPU',
  settings: '',
  pool: ''
};

function Entry({ entry }: { entry: AuditEntry }): ReactElement {
  const trans = useTrans();
  const at = new Date(1000 * entry.at);
  return (
    <tr>
      <td className="runai-Table-text">
        <time dateTime={at.toISOString()}>{at.toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' })}</time>
      </td>
      <td className="runai-Table-text">
        {entry.user ??
          (entry.kind === 'gpu' || entry.kind === 'session' ? trans.__('scheduler') : trans.__('pool file'))}
      </td>
      <td className="runai-Table-text runai-Table-words">
        {linesOf(entry, trans).map(line => (
          <div key={line}>
            {[trans.__(KINDS[entry.kind]), line, ownerWords(entry, trans), schedulersReason(entry)]
              .filter(Boolean)
              .join(' ')}
          </div>
        ))}
      </td>
    </tr>
  );
}

function linesOf(entry: AuditEntry, trans: Trans): string[] {
  if (entry.kind === 'gpu') {
    return [failureWords(entry, trans)];
  }
  return entry.kind === 'session' && entry.after?.gpus ? [lendingWords(entry, trans)] : changeWords(entry, trans);
}

function lendingWords({ name, before, after }: AuditEntry, trans: Trans): string {
  return trans.__('%1: GPUs %2 → %3', name, String(before?.gpus), String(after?.gpus));
}

/** Why the scheduler itself stopped a server, or lent or took back its GPUs. */
function schedulersReason({ action, after }: AuditEntry): string {
  return (action === 'remove' || after?.gpus) && after?.reason ? String(after.reason) : '';
}

/** The owner of the job or session: its id alone is meaningless after it is deleted. */
function ownerWords({ before }: AuditEntry, trans: Trans): string {
  const words = [before?.name, before?.owner && trans.__('of %1', before.owner)].filter(Boolean).join(' ');
  return before?.owner ? `(${words})` : '';
}
