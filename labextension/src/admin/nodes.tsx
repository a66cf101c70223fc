/** Every node: what it has, how much of it is held, whether it takes work. */
import type { ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { NodeView } from '../model/api';
import { amount, percent } from '../model/format';
import { Card } from './card';

export function NodesView({ nodes }: { nodes: readonly NodeView[] }): ReactElement {
  const trans = useTrans();
  return (
    <Card title={trans.__('Nodes')} aside={String(nodes.length)}>
      <div className="runai-TableBox">
        <table className="runai-Table">
          <thead>
            <tr>
              <th scope="col">{trans.__('Node')}</th>
              <th scope="col" className="runai-Table-text">
                {trans.__('Node pool')}
              </th>
              <th scope="col" className="runai-Table-text">
                {trans.__('GPU type')}
              </th>
              <th scope="col">{trans.__('GPUs')}</th>
              <th scope="col">{trans.__('Allocated')}</th>
              <th scope="col">{trans.__('Used')}</th>
              <th scope="col" className="runai-Table-text">
                {trans.__('State')}
              </th>
            </tr>
          </thead>
          <tbody>
            {nodes.map(node => (
              <tr key={node.name}>
                <th scope="row">{node.name}</th>
                <td className="runai-Table-text">{node.node_pool}</td>
                <td className="runai-Table-text">{node.gpu_type ?? '–'}</td>
                <td>{node.gpus.length}</td>
                <td>{amount(allocated(node))}</td>
                <td>{usedOf(node)}</td>
                <td className="runai-Table-text">
                  {node.schedulable ? trans.__('takes work') : trans.__('takes no new work')}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

/** GPUs of a node that sessions and jobs hold. */
export function allocated(node: NodeView): number {
  return node.gpus.reduce((sum, gpu) => sum + gpu.occupants.reduce((held, one) => held + one.share, 0), 0);
}

function usedOf(node: NodeView): string {
  const uses = node.gpus.flatMap(gpu => gpu.utilisation ?? []);
  return uses.length ? percent(uses.reduce((sum, use) => sum + use, 0) / uses.length) : '–';
}
