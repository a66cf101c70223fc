/** The pool at a glance: figures, all GPUs, projects and the queue. */
import { useMemo, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { JobActions } from '../components/job';
import { JobList } from '../components/jobs';
import type { JobView, PoolView } from '../model/api';
import { isFinal, type IPoolModel, type PoolState } from '../model/state';
import { Card } from './card';
import { Decisions } from './decisions';
import { FailingGpus } from './failing';
import { GpuGrid } from './grid';
import { History } from './history';
import { ProjectTable } from './projects';
import { Tiles } from './tiles';

export interface OverviewProps {
  model: IPoolModel;
  state: PoolState;
  pool: PoolView;
  actions: JobActions;
}

export function Overview({ model, state, pool, actions }: OverviewProps): ReactElement {
  const trans = useTrans();
  const jobs = useMemo(() => [...state.jobs.values()], [state.jobs]);
  const list = (some: JobView[], label: string, empty: string, order?: typeof byPosition) => (
    <JobList
      jobs={some}
      me={state.me}
      model={model}
      actions={actions}
      named
      label={label}
      empty={empty}
      {...(order ? { order } : {})}
    />
  );
  const waiting = jobs.filter(job => job.state === 'queued' || job.state === 'paused');
  const running = jobs.filter(job => !isFinal(job.state) && !waiting.includes(job));
  const ended = jobs.filter(job => isFinal(job.state));
  return (
    <>
      <Tiles pool={pool} jobs={jobs} />
      <div className="runai-Columns">
        <div>
          <Card
            title={trans.__('GPUs')}
            aside={
              pool.declared
                ? pool.nodes.some(node => node.gpus.some(gpu => gpu.declared))
                  ? trans.__('colour: who holds it · fill: declared load, nothing is measured')
                  : trans.__('declared GPUs: none were found, so use is not measured')
                : trans.__('colour: who holds it · fill: use')
            }
          >
            <GpuGrid pool={pool} />
          </Card>
          <FailingGpus pool={pool} />
          <Card title={trans.__('Projects')} aside={trans.__('bar: allocated · line: guarantee · lighter: over quota')}>
            <ProjectTable projects={state.projects} pool={pool.train.gpus} />
          </Card>
          {state.me?.admin && <History client={model.client} total={pool.build.gpus + pool.train.gpus} />}
        </div>
        <div>
          <Decisions model={model} state={state} />
          <Card title={trans.__('Queue')} aside={count(waiting.length)}>
            {list(waiting, trans.__('Queue'), trans.__('The queue is empty.'), byPosition)}
          </Card>
          <Card title={trans.__('Running')} aside={count(running.length)}>
            {list(running, trans.__('Running'), trans.__('No jobs are running.'))}
          </Card>
          {ended.length > 0 && (
            <Card title={trans.__('Recently ended')}>{list(ended, trans.__('Recently ended'), '')}</Card>
          )}
        </div>
      </div>
    </>
  );
}

function count(jobs: number): string {
  return jobs > 0 ? String(jobs) : '';
}

/** The queue's order: by estimated start, then by position and age; paused jobs last. */
export function byPosition(a: JobView, b: JobView): number {
  return (
    Number(a.state === 'paused') - Number(b.state === 'paused') ||
    (a.estimated_start ?? Infinity) - (b.estimated_start ?? Infinity) ||
    (a.position ?? Infinity) - (b.position ?? Infinity) ||
    a.submitted - b.submitted
  );
}
