/** The GPUs that fail, and why. */
import type { ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { AuditEntry, GpuView, PoolView } from '../model/api';
import type { Trans } from '../trans';
import { Card } from './card';

export function failingGpus(pool: PoolView | null): (GpuView & { node: string })[] {
  return (pool?.nodes ?? []).flatMap(({ name, gpus }) =>
    gpus.flatMap(gpu => (gpu.failure === null ? [] : [{ node: name, ...gpu }]))
  );
}

/** What an entry about a GPU says of it; the sentence begins after `GPU`. */
export function failureWords({ name, after }: AuditEntry, trans: Trans): string {
  return after?.failure
    ? trans.__('%1 fails and gets no more work. %2', name, String(after.failure))
    : trans.__('%1 works again and gets work.', name);
}

/** Shown only if there are any. */
export function FailingGpus({ pool }: { pool: PoolView }): ReactElement | null {
  const trans = useTrans();
  const failing = failingGpus(pool);
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
