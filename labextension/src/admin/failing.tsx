/** The GPUs that fail, and why. Shown only if there are any. */
import type { ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { PoolView } from '../model/api';
import { Card } from './card';

export function FailingGpus({ pool }: { pool: PoolView }): ReactElement | null {
  const trans = useTrans();
  const failing = pool.nodes.flatMap(node =>
    node.gpus.flatMap(gpu => (gpu.failure === null ? [] : [{ node: node.name, ...gpu }]))
  );
  if (!failing.length) {
    return null;
  }
  return (
    <Card title={trans.__('GPUs that fail')} aside={trans.__('they get no work until they recover')}>
      <ul className="runai-Failing">
        {failing.map(({ node, index, failure }) => (
          <li key={`${node}/${index}`}>
            <a href="#nodes">{trans.__('%1 · GPU %2', node, index)}</a> <span>{failure}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}
