/** The figures that administrators look at first. */
import type { ReactElement } from 'react';
import { useNow, useTrans } from '../components/hooks';
import type { JobView, PoolView } from '../model/api';
import { amount, clock, duration, gpus, percent, waitingSince } from '../model/format';

export function Tiles({ pool, jobs }: { pool: PoolView; jobs: readonly JobView[] }): ReactElement {
  const trans = useTrans();
  const now = useNow();
  const all = pool.build.gpus + pool.train.gpus;
  const held = pool.build.allocated + pool.train.allocated;
  const use = measured(pool);
  const queued = jobs.filter(job => job.state === 'queued');
  const oldest = Math.min(...queued.map(waitingSince));
  const next = Math.min(...queued.map(job => job.estimated_start ?? Infinity));
  return (
    <div className="runai-Tiles">
      <Tile
        value={all > 0 ? percent(held / all) : '–'}
        name={trans.__('allocated')}
        more={trans.__('%1 of %2', amount(held), gpus(all, trans))}
      />
      <Tile
        value={use === null ? '–' : percent(use)}
        name={trans.__('used')}
        more={
          use === null
            ? pool.declared
              ? trans.__('declared: not measured')
              : trans.__('not measured here')
            : pool.declared
              ? trans.__('declared load, not measured')
              : trans.__('by NVML, now')
        }
      />
      <Tile
        value={amount(pool.train.free)}
        name={trans.__('free for jobs')}
        more={trans.__('of %1 in the train pool', amount(pool.train.gpus))}
      />
      <Tile
        value={amount(pool.train.over_quota)}
        name={trans.__('over quota')}
        more={trans.__('GPUs that can be reclaimed')}
      />
      <Tile
        value={amount(pool.waiting)}
        name={trans._n('job waiting', 'jobs waiting', pool.waiting)}
        more={[
          Number.isFinite(oldest) ? trans.__('longest %1', duration(now - oldest, trans)) : '',
          Number.isFinite(next) ? trans.__('next start about %1', clock(next, now)) : ''
        ]
          .filter(Boolean)
          .join(' · ')}
      />
    </div>
  );
}

function Tile({ value, name, more }: { value: string; name: string; more: string }): ReactElement {
  return (
    <div className="runai-Tile">
      <b>{value}</b>
      <span>{name}</span>
      <small>{more || '\u00a0'}</small>
    </div>
  );
}

/** The mean use of the measured GPUs; null if none are measured. */
export function measured(pool: PoolView): number | null {
  const uses = pool.nodes.flatMap(node => node.gpus.flatMap(gpu => gpu.utilisation ?? []));
  return uses.length ? uses.reduce((sum, use) => sum + use, 0) / uses.length : null;
}
