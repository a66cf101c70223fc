/** The pool page, in several views. Users see what their permissions allow. */
import { useCallback, useRef, useState, type ReactElement } from 'react';
import { StillContext, usePool, useStill, useTrans } from '../components/hooks';
import type { JobActions } from '../components/job';
import { ProblemNote } from '../components/note';
import { questionBefore } from '../components/question';
import type { PoolView } from '../model/api';
import type { IPoolModel } from '../model/state';
import { ADMINISTRATORS, useJobId, useView, VIEWS, type ViewName } from './address';
import { AuditView } from './audit';
import { useConfirm } from './confirm';
import { JobsView } from './jobsview';
import { NodesView } from './nodes';
import { Overview } from './overview';
import { PeopleView } from './people';
import { PoliciesView } from './policies';
import { ProjectsView } from './projectsview';
import { UsageView } from './usage';

export function PoolPage({ model }: { model: IPoolModel }): ReactElement {
  const trans = useTrans();
  const state = usePool(model);
  const view = useView();
  const jobId = useJobId();
  const [refusal, setRefusal] = useState<string | null>(null);
  const [confirm, dialog] = useConfirm();
  const page = useRef<HTMLDivElement>(null);
  const still = useStill(page);
  const admin = state.me?.admin ?? false;
  const attempt = useCallback(async (act: () => Promise<void>) => {
    setRefusal(null);
    await act().catch((error: Error) => setRefusal(error.message));
  }, []);
  const actions: JobActions = {
    async act(job, verb) {
      await attempt(async () => {
        const question = await questionBefore(model.client, job, verb, trans);
        if (!question || (await confirm(question))) {
          await model.act(job.id, verb);
        }
      });
    }
  };
  const views: Record<ViewName, (pool: PoolView) => ReactElement> = {
    pool: pool => <Overview model={model} state={state} pool={pool} actions={actions} />,
    projects: pool => <ProjectsView client={model.client} state={state} pool={pool} />,
    people: pool => <PeopleView model={model} state={state} pool={pool} confirm={confirm} attempt={attempt} />,
    jobs: () => (
      <JobsView
        key={jobId}
        of={jobId}
        model={model}
        state={state}
        actions={actions}
        confirm={confirm}
        attempt={attempt}
      />
    ),
    nodes: pool => <NodesView model={model} state={state} pool={pool} admin={admin} attempt={attempt} />,
    policies: () => <PoliciesView client={model.client} state={state} />,
    usage: () => <UsageView client={model.client} admin={admin} />,
    audit: () => <AuditView client={model.client} />
  };
  return (
    <div className="runai-Page" data-connection={state.connection} ref={page}>
      <ViewLinks current={view} admin={admin} />
      <StillContext.Provider value={still}>
        {state.pool
          ? views[view](state.pool)
          : state.connection === 'connecting' && <p className="runai-Empty">{trans.__('Loading the pool…')}</p>}
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

function ViewLinks({ current, admin }: { current: ViewName; admin: boolean }): ReactElement {
  const trans = useTrans();
  const names: Record<ViewName, string> = {
    pool: trans.__('Pool'),
    projects: trans.__('Projects'),
    people: trans.__('People'),
    jobs: trans.__('Jobs'),
    nodes: trans.__('Nodes'),
    policies: trans.__('Policies'),
    usage: trans.__('Usage'),
    audit: trans.__('Audit')
  };
  return (
    <nav className="runai-Views" aria-label={trans.__('Views')}>
      {VIEWS.filter(view => admin || !ADMINISTRATORS.includes(view)).map(view => (
        <a key={view} href={`#${view}`} {...(view === current ? { 'aria-current': 'page' } : {})}>
          {names[view]}
        </a>
      ))}
    </nav>
  );
}
