/** Every GPU and what uses it, node by node. */
import { useState, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { GpuView, NodeView, Occupant, PoolView } from '../model/api';
import { amount, gib, percent } from '../model/format';
import type { Trans } from '../trans';

type Kind = 'build' | 'train' | 'over' | 'foreign' | 'failing' | 'free';

export function GpuGrid({ pool }: { pool: PoolView }): ReactElement {
  const trans = useTrans();
  const [pointed, setPointed] = useState<[string, number] | null>(null);
  const node = pool.nodes.find(other => other.name === pointed?.[0]);
  const gpu = node?.gpus.find(other => other.index === pointed?.[1]);
  return (
    <>
      <div className="runai-Nodes" onPointerLeave={() => setPointed(null)}>
        {pool.nodes.map(one => (
          <Node key={one.name} node={one} point={index => setPointed([one.name, index])} />
        ))}
      </div>
      <div className="runai-Pointed" aria-hidden="true">
        {node && gpu ? (
          `${node.name} · ${gpuWords(gpu, trans)}`
        ) : (
          <Legend failing={pool.nodes.some(one => one.gpus.some(gpu => gpu.failure !== null))} />
        )}
      </div>
    </>
  );
}

function Node({ node, point }: { node: NodeView; point: (index: number) => void }): ReactElement {
  const trans = useTrans();
  const about = [
    node.gpu_type,
    node.declared ? trans.__('declared') : '',
    node.schedulable ? '' : trans.__('takes no new work')
  ].filter(Boolean);
  return (
    <div className="runai-Node">
      <div className="runai-Node-name">
        <b>{node.name}</b>
        <span className="runai-Aside">{[node.node_pool, ...about].join(' · ')}</span>
      </div>
      <ul className="runai-Cells">
        {node.gpus.map(gpu => {
          const words = gpuWords(gpu, trans);
          return (
            <li key={gpu.index}>
              <button
                type="button"
                className="runai-Cell"
                aria-label={words}
                title={words}
                onPointerEnter={() => point(gpu.index)}
                onFocus={() => point(gpu.index)}
              >
                <Cell gpu={gpu} />
              </button>
            </li>
          );
        })}
      </ul>
    </div>
  );
}

/** A shared GPU is divided by shares; the filled height is the measured use, or all of it if nothing measures it. */
function Cell({ gpu }: { gpu: GpuView }): ReactElement {
  const held = gpu.occupants.reduce((sum, occupant) => sum + occupant.share, 0);
  const failing = gpu.failure !== null;
  const outside = failing ? Math.max(0, 1 - held) : gpu.foreign;
  return (
    <>
      {gpu.occupants.map((occupant, index) => (
        <span
          key={occupant.id ?? index}
          className="runai-Cell-part"
          data-kind={kindOf(occupant)}
          style={{ width: `${100 * occupant.share}%` }}
        >
          {gpu.utilisation !== null && (
            <span className="runai-Cell-use" style={{ height: `${100 * gpu.utilisation}%` }} />
          )}
        </span>
      ))}
      {outside > 0 && (
        <span
          className="runai-Cell-part"
          data-kind={failing ? 'failing' : 'foreign'}
          style={{ width: `${100 * outside}%` }}
        />
      )}
      {held + outside < 1 && <span className="runai-Cell-part" data-kind="free" style={{ flex: 1 }} />}
    </>
  );
}

export function kindOf(occupant: Occupant): Kind {
  return occupant.kind === 'session' ? 'build' : occupant.over_quota ? 'over' : 'train';
}

/** A GPU as a sentence: what uses it and how busy it is. */
export function gpuWords(gpu: GpuView, trans: Trans): string {
  const outside =
    gpu.foreign < 1 ? trans.__('%1 used outside the pool', amount(gpu.foreign)) : trans.__('used outside the pool');
  const who = [
    ...gpu.occupants.map(occupant => occupantWords(occupant, trans)),
    gpu.foreign > 0 ? outside : '',
    gpu.failure === null ? '' : trans.__('out of use: %1', gpu.failure)
  ]
    .filter(Boolean)
    .join('; ');
  const use =
    gpu.utilisation === null
      ? ''
      : trans.__('%1 busy', percent(gpu.utilisation)) +
        (gpu.used_memory_gib === null ? '' : `, ${gib(gpu.used_memory_gib, trans)}`) +
        (gpu.declared ? trans.__(' (declared)') : '');
  return [trans.__('GPU %1', gpu.index), who || trans.__('free'), use, slownessWords(gpu, trans)]
    .filter(Boolean)
    .join(' · ');
}

/** How much longer jobs take on a GPU than on others of its type; nothing where it is not known to be slow. */
export function slownessWords(gpu: GpuView, trans: Trans): string {
  return gpu.slowness > 1 ? trans.__('%1 × slower than GPUs of its type', gpu.slowness.toFixed(1)) : '';
}

export function occupantWords(occupant: Occupant, trans: Trans): string {
  const share = occupant.share < 1 ? trans.__('%1 held by ', amount(occupant.share)) : '';
  if (occupant.kind === 'session') {
    return share + (occupant.user ? trans.__('notebook of %1', occupant.user) : trans.__('a notebook'));
  }
  if (!occupant.name) {
    return share + trans.__('a job of another project');
  }
  const job = trans.__('%1 of %2, project %3', occupant.name, occupant.user ?? '', occupant.project ?? '');
  return share + (occupant.over_quota ? trans.__('%1, over quota', job) : job);
}

function Legend({ failing }: { failing: boolean }): ReactElement {
  const trans = useTrans();
  const kinds: [Kind, string][] = [
    ['build', trans.__('build (fixed)')],
    ['train', trans.__('train, guaranteed')],
    ['over', trans.__('train, over quota')],
    ['foreign', trans.__('used outside the pool')],
    ...(failing ? [['failing', trans.__('out of use')] as [Kind, string]] : []),
    ['free', trans.__('free')]
  ];
  return (
    <span className="runai-Legend">
      {kinds.map(([kind, name]) => (
        <span key={kind}>
          <i data-kind={kind} /> {name}
        </span>
      ))}
    </span>
  );
}
