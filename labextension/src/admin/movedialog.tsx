/** Moves a node to another node pool, after a look at what that brings about. */
import { useEffect, useId, useState, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { JobView, NodePoolEntry, NodeView } from '../model/api';
import type { Client } from '../model/client';
import { ReviewDialog } from './reviewdialog';

export interface MoveDialogProps {
  node: NodeView;
  client: Client;
  jobs: ReadonlyMap<string, JobView>;
  close: () => void;
}

export function MoveDialog({ node, client, jobs, close }: MoveDialogProps): ReactElement {
  const trans = useTrans();
  const [others, setOthers] = useState<readonly NodePoolEntry[] | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [chosen, setChosen] = useState<string | null>(null);
  const id = useId();
  const own = node.node_pool;
  useEffect(() => {
    client.seenPoolFile().then(
      ({ file }) => setOthers(file.node_pools.filter(one => one.name !== own)),
      (error: Error) => setProblem(error.message)
    );
  }, [client, own]);
  const to = chosen ?? others?.[0]?.name ?? '';
  return (
    <ReviewDialog
      title={trans.__('Move %1 to another node pool', node.name)}
      ready={!!others?.length}
      jobs={jobs}
      look={() => client.moveNode(node.name, to, true)}
      apply={() => client.moveNode(node.name, to, false)}
      close={close}
    >
      <p>{trans.__('It belongs to the node pool %1. Running work continues to its end.', own)}</p>
      {problem && <p role="alert">{problem}</p>}
      {others?.length === 0 && (
        <p role="alert">{trans.__('There is no other node pool. Add one to the pool file first.')}</p>
      )}
      {!!others?.length && (
        <div className="runai-Editor-field">
          <label htmlFor={id}>{trans.__('Node pool')}</label>
          <select id={id} value={to} onChange={event => setChosen(event.target.value)}>
            {others.map(one => (
              <option key={one.name} value={one.name}>
                {one.name === one.environment ? one.name : trans.__('%1 (%2)', one.name, one.environment)}
              </option>
            ))}
          </select>
        </div>
      )}
    </ReviewDialog>
  );
}
