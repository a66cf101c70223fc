/** All nodes: capacity, allocation, their GPUs, and whether they accept work. Administrators drain and move them. */
import { Fragment, useEffect, useId, useRef, useState, type FormEvent, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { NodeView, PoolView } from '../model/api';
import { amount, percent } from '../model/format';
import type { IPoolModel, PoolState } from '../model/state';
import type { Trans } from '../trans';
import { Card } from './card';
import { NodeGpus } from './gpus';
import { MoveDialog } from './movedialog';
import { Table } from './table';

export interface NodesViewProps {
  model: IPoolModel;
  state: PoolState;
  pool: PoolView;
  admin: boolean;
  /** Runs an action and shows the error if it is refused. */
  attempt: (act: () => Promise<void>) => Promise<void>;
}

export function NodesView({ model, state, pool, admin, attempt }: NodesViewProps): ReactElement {
  const trans = useTrans();
  const { nodes } = pool;
  const { client } = model;
  const [drained, setDrained] = useState<string | null>(null);
  const [moved, setMoved] = useState<NodeView | null>(null);
  const [open, setOpen] = useState<string | null>(null);
  const columns = [
    { title: trans.__('Node') },
    { title: trans.__('Node pool'), className: 'runai-Table-text' },
    { title: trans.__('GPU type'), className: 'runai-Table-text runai-Wide' },
    { title: trans.__('GPUs') },
    { title: trans.__('Allocated') },
    { title: trans.__('Used'), className: 'runai-Wide' },
    { title: trans.__('State'), className: 'runai-Table-text' }
  ];
  return (
    <Card title={trans.__('Nodes')} aside={String(nodes.length)}>
      <div>
        <Table columns={columns} edit={admin}>
          {nodes.map(node => (
            <Fragment key={node.name}>
              <tr>
                <th scope="row">
                  <button
                    type="button"
                    className="runai-Table-unfold"
                    aria-expanded={open === node.name}
                    onClick={() => setOpen(open === node.name ? null : node.name)}
                  >
                    {node.name}
                  </button>
                </th>
                <td className="runai-Table-text">{node.node_pool}</td>
                <td className="runai-Table-text runai-Wide">{node.gpu_type ?? '–'}</td>
                <td>{node.gpus.length}</td>
                <td>{amount(allocated(node))}</td>
                <td className="runai-Wide">{usedOf(node, trans)}</td>
                <td className="runai-Table-text runai-Table-people" title={stateOf(node, trans)}>
                  {stateOf(node, trans)}
                </td>
                {admin && (
                  <td className="runai-Table-edit">
                    <button
                      type="button"
                      className="runai-Link"
                      aria-label={trans.__('Move %1', node.name)}
                      onClick={() => setMoved(node)}
                    >
                      {trans.__('Move…')}
                    </button>
                    {node.drained === null ? (
                      <button
                        type="button"
                        className="runai-Link"
                        aria-label={trans.__('Drain %1', node.name)}
                        onClick={() => setDrained(node.name)}
                      >
                        {trans.__('Drain…')}
                      </button>
                    ) : (
                      <button
                        type="button"
                        className="runai-Link"
                        aria-label={trans.__('Return %1', node.name)}
                        onClick={() => void attempt(() => client.drain(node.name, null))}
                      >
                        {trans.__('Return')}
                      </button>
                    )}
                  </td>
                )}
              </tr>
              {open === node.name && (
                <tr className="runai-Table-details">
                  <td colSpan={columns.length + Number(admin)}>
                    <NodeGpus node={node} client={client} />
                  </td>
                </tr>
              )}
            </Fragment>
          ))}
        </Table>
      </div>
      {moved && <MoveDialog node={moved} client={client} jobs={state.jobs} close={() => setMoved(null)} />}
      {drained !== null && (
        <DrainDialog name={drained} close={() => setDrained(null)} drain={reason => client.drain(drained, reason)} />
      )}
    </Card>
  );
}

interface DrainDialogProps {
  name: string;
  close: () => void;
  drain: (reason: string) => Promise<void>;
}

function DrainDialog({ name, close, drain }: DrainDialogProps): ReactElement {
  const trans = useTrans();
  const dialog = useRef<HTMLDialogElement>(null);
  const [reason, setReason] = useState('');
  const [problem, setProblem] = useState<string | null>(null);
  const id = useId();
  useEffect(() => {
    if (!dialog.current?.open) {
      dialog.current?.showModal();
    }
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setProblem(null);
    drain(reason.trim()).then(
      () => dialog.current?.close(),
      (error: Error) => setProblem(error.message)
    );
  };
  return (
    <dialog ref={dialog} className="runai-Dialog" aria-labelledby={`${id}-title`} onClose={close}>
      <form onSubmit={submit}>
        <h2 id={`${id}-title`}>{trans.__('Drain %1?', name)}</h2>
        <p>{trans.__('It gets no new work. Running work continues to its end.')}</p>
        <div className="runai-Editor-field">
          <label htmlFor={id}>{trans.__('Reason')}</label>
          <input id={id} value={reason} maxLength={200} onChange={event => setReason(event.target.value)} />
          <span className="runai-Hint">{trans.__('shown with the node')}</span>
        </div>
        {problem && (
          <p className="runai-Editor-problem" role="alert">
            {problem}
          </p>
        )}
        <div className="runai-Dialog-buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            {trans.__('Close')}
          </button>
          <button type="submit" className="runai-Primary">
            {trans.__('Drain')}
          </button>
        </div>
      </form>
    </dialog>
  );
}

function stateOf(node: NodeView, trans: Trans): string {
  if (node.drained !== null) {
    return node.drained ? trans.__('drained: %1', node.drained) : trans.__('drained');
  }
  return node.schedulable ? trans.__('takes work') : trans.__('takes no new work');
}

/** The GPUs of a node that sessions and jobs hold. */
export function allocated(node: NodeView): number {
  return node.gpus.reduce((sum, gpu) => sum + gpu.occupants.reduce((held, one) => held + one.share, 0), 0);
}

function usedOf(node: NodeView, trans: Trans): string {
  const uses = node.gpus.flatMap(gpu => gpu.utilisation ?? []);
  const used = uses.length ? percent(uses.reduce((sum, use) => sum + use, 0) / uses.length) : '–';
  return node.gpus.some(gpu => gpu.declared) ? trans.__('%1 (declared)', used) : used;
}
