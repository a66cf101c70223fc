/** The pool as a whole: figures, every GPU, the queue, the projects. Everybody sees what they may see. */
import { useMemo, useRef, useState, type ReactElement, type ReactNode } from 'react';
import { StillContext, usePool, useStill, useTrans } from '../components/hooks';
import type { JobActions } from '../components/job';
import { JobList } from '../components/jobs';
import { ProblemNote } from '../components/note';
import { questionOf } from '../components/question';
import type { JobView } from '../model/api';
import { isFinal, type IPoolModel } from '../model/state';
import { useConfirm } from './confirm';
import { GpuGrid } from './grid';
import { ProjectTable } from './projects';
import { Tiles } from './tiles';

export function PoolPage({ model }: { model: IPoolModel }): ReactElement {
  const trans = useTrans();
  const state = usePool(model);
  const [refusal, setRefusal] = useState<string | null>(null);
  const [confirm, dialog] = useConfirm();
  const page = useRef<HTMLDivElement>(null);
  const still = useStill(page);
  const jobs = useMemo(() => [...state.jobs.values()], [state.jobs]);
  const actions: JobActions = {
    async act(job, verb) {
      const question = questionOf(job, verb, trans);
      if (question && !(await confirm(question))) {
        return;
      }
      setRefusal(null);
      await model.act(job.id, verb).catch((error: Error) => setRefusal(error.message));
    }
  };
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
    <div className="runai-Page" data-connection={state.connection} ref={page}>
      <StillContext.Provider value={still}>
        {state.pool ? (
          <>
            <Tiles pool={state.pool} jobs={jobs} />
            <div className="runai-Columns">
              <div>
                <Card
                  title={trans.__('GPUs')}
                  aside={
                    state.pool.declared
                      ? trans.__('declared GPUs: none were found, so use is not measured')
                      : trans.__('colour: who holds it · fill: use')
                  }
                >
                  <GpuGrid model={model} pool={state.pool} />
                </Card>
                <Card
                  title={trans.__('Projects')}
                  aside={trans.__('bar: allocated · line: guarantee · lighter: over quota')}
                >
                  <ProjectTable projects={state.projects} pool={state.pool.train.gpus} />
                </Card>
              </div>
              <div>
                <Card title={trans.__('Queue')} aside={count(waiting.length)}>
                  {list(waiting, trans.__('Queue'), trans.__('The queue is empty.'), byPosition)}
                </Card>
                <Card title={trans.__('Running')} aside={count(running.length)}>
                  {list(running, trans.__('Running'), trans.__('No jobs are running.'))}
                </Card>
                {ended.length > 0 && (
                  <Card title={trans.__('Recently ended')} aside="">
                    {list(ended, trans.__('Recently ended'), '')}
                  </Card>
                )}
              </div>
            </div>
          </>
        ) : (
          state.connection === 'connecting' && <p className="runai-Empty">{trans.__('Loading the pool…')}</p>
        )}
      </StillContext.Provider>
      <ProblemNote model={model} state={state} />
      {refusal && (
        <div className="runai-Note" role="alert">
          <span>{refusal}</span>
          <button type="button" className="runai-Link" onClick={() => setRefusal(null)}>
            {trans.__('Close')}
          </button>
        </div>
      )}
      {dialog}
    </div>
  );
}

function Card(props: { title: string; aside: string; children: ReactNode }): ReactElement {
  return (
    <section className="runai-PageCard" aria-label={props.title}>
      <h2>
        {props.title} <span className="runai-Aside">{props.aside}</span>
      </h2>
      {props.children}
    </section>
  );
}

function count(jobs: number): string {
  return jobs > 0 ? String(jobs) : '';
}

/** The queue's order: who starts soonest, as far as anybody knows, then by place in line and age; paused ones last. */
export function byPosition(a: JobView, b: JobView): number {
  return (
    Number(a.state === 'paused') - Number(b.state === 'paused') ||
    (a.estimated_start ?? Infinity) - (b.estimated_start ?? Infinity) ||
    (a.position ?? Infinity) - (b.position ?? Infinity) ||
    a.submitted - b.submitted
  );
}
