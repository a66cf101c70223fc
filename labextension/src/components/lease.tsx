/** The GPUs leased to the caller's notebook servers. */
import type { ReactElement } from 'react';
import type { GpuView, Isolation, PoolView, SessionView } from '../model/api';
import { amount, gib, percent, ranges } from '../model/format';
import { idleWords } from '../model/idle';
import { isolationWords } from '../model/isolation';
import { useTrans } from './hooks';

export interface LeaseProps {
  session: SessionView;
  pool: PoolView | null;
  /** The name of the server, if it is not the current one. */
  title?: string;
}

export function Lease({ session, pool, title }: LeaseProps): ReactElement {
  const trans = useTrans();
  if (session.state === 'requested') {
    return (
      <div className="runai-Hint" data-still="">
        {session.reason || trans.__('Waiting for a GPU.')}
      </div>
    );
  }
  const measured = session.workers.some(worker =>
    worker.gpus.some(index => typeof gpuOf(pool, worker.node, index)?.utilisation === 'number')
  );
  return (
    <div className="runai-Lease">
      {title && <div className="runai-Aside">{title}</div>}
      {session.workers.flatMap(worker =>
        worker.gpus.map(index => (
          <LeasedGpu
            key={`${worker.node}/${index}`}
            node={worker.node}
            index={index}
            share={worker.share}
            pool={pool}
          />
        ))
      )}
      {session.lent.flatMap(worker =>
        worker.gpus.map(index => (
          <div className="runai-Gpu" key={`${worker.node}/${index}`}>
            <span className="runai-Gpu-swatch" data-kind="train" />
            <span className="runai-Gpu-name">{trans.__('%1 · GPU %2', worker.node, ranges([index]))}</span>
            <span className="runai-Aside">{trans.__('lent')}</span>
          </div>
        ))
      )}
      <div className="runai-Hint">
        {idleWords(session, trans) ||
          (session.gpus === 0
            ? trans.__('This server has no GPU. Jobs use the train pool.')
            : trans.__('Yours as long as the server runs.'))}{' '}
        {session.gpus > 0 &&
          session.declared &&
          !measured &&
          trans.__('This GPU is declared; its use is not measured.')}{' '}
        {session.gpus % 1 > 0 && isolationWords(isolationOf(pool, session), trans)}
      </div>
      {session.memory_warning && (
        <div className="runai-Lease-warning" role="alert">
          {session.memory_warning}
        </div>
      )}
    </div>
  );
}

interface LeasedGpuProps {
  node: string;
  index: number;
  share: number;
  pool: PoolView | null;
}

function LeasedGpu({ node, index, share, pool }: LeasedGpuProps): ReactElement {
  const trans = useTrans();
  const type = pool?.nodes.find(other => other.name === node)?.gpu_type;
  const gpu = gpuOf(pool, node, index);
  const name = trans.__('%1 · GPU %2', type ?? node, ranges([index]));
  const use = gpu?.utilisation ?? null;
  const memory = gpu?.used_memory_gib ?? null;
  return (
    <div className="runai-Gpu">
      <span className="runai-Gpu-swatch" data-kind="build" />
      <span className="runai-Gpu-name" title={node}>
        {share < 1 ? trans.__('%1 of %2', amount(share), name) : name}
      </span>
      {use !== null ? (
        <>
          <span
            className="runai-Meter"
            role="meter"
            aria-label={trans.__('GPU use')}
            aria-valuemin={0}
            aria-valuemax={1}
            aria-valuenow={use}
          >
            <span className="runai-Meter-fill" data-kind="build" style={{ width: `${100 * use}%` }} />
          </span>
          <span className="runai-Aside">
            {percent(use)}
            {memory !== null && ` · ${gib(memory, trans)}`}
            {gpu?.declared && ` · ${trans.__('declared')}`}
          </span>
        </>
      ) : (
        <span className="runai-Aside">{trans.__('leased')}</span>
      )}
    </div>
  );
}

function isolationOf(pool: PoolView | null, session: SessionView): Isolation {
  return pool?.nodes.find(({ name }) => name === session.workers[0]?.node)?.isolation ?? 'unknown';
}

function gpuOf(pool: PoolView | null, node: string, index: number): GpuView | undefined {
  return pool?.nodes.find(other => other.name === node)?.gpus.find(gpu => gpu.index === index);
}
