/** The panel: my GPUs, my projects and jobs. */
import {
  useCallback,
  useDeferredValue,
  useEffect,
  useMemo,
  useRef,
  useState,
  type ReactElement,
  type ReactNode
} from 'react';
import { amount } from '../model/format';
import { countsOf, type IPoolModel, type PoolState } from '../model/state';
import { useFound } from './found';
import { StillContext, useFrozen, usePool, useStill, useTrans } from './hooks';
import { ActionIcon } from './icons';
import type { JobActions } from './job';
import { JobList } from './jobs';
import { Lease } from './lease';
import { ProblemNote } from './note';
import { ProjectQuota } from './quota';
import { ScheduleList } from './schedules';

export interface PanelProps {
  model: IPoolModel;
  actions: JobActions;
  /** The name of the notebook server that shows the panel ("" is the default server); null without a hub. */
  server: string | null;
  /** Opens the form for a new job. */
  onNewJob: () => void;
  /** The page's own search box. */
  filterBox: (query: string, change: (query: string) => void) => ReactNode;
}

export function Panel({ model, actions, server, onNewJob, filterBox }: PanelProps): ReactElement {
  const trans = useTrans();
  const state = usePool(model);
  const panel = useRef<HTMLDivElement>(null);
  const still = useStill(panel);
  return (
    <div className="runai-Panel" data-connection={state.connection} ref={panel}>
      <StillContext.Provider value={still}>
        {state.me ? (
          <>
            <MyGpus state={state} server={server} />
            <MyProjects state={state} />
            <Jobs model={model} state={state} actions={actions} onNewJob={onNewJob} filterBox={filterBox} />
            <ScheduleList state={state} actions={actions} />
          </>
        ) : (
          state.connection === 'connecting' && <div className="runai-Empty">{trans.__('Loading the pool…')}</div>
        )}
      </StillContext.Provider>
      <ProblemNote model={model} state={state} />
    </div>
  );
}

function Section(props: { title: string; aside: string; children: ReactNode }): ReactElement {
  return (
    <section className="runai-Section" aria-label={props.title}>
      <h2 className="runai-Section-title">
        <span>{props.title}</span>
        <span className="runai-Aside">{props.aside}</span>
      </h2>
      <div className="runai-Section-body">{props.children}</div>
    </section>
  );
}

interface MyGpusProps {
  state: PoolState;
  server: string | null;
}

function MyGpus({ state, server }: MyGpusProps): ReactElement {
  const trans = useTrans();
  const mine = state.sessions.filter(session => session.user === state.me?.name && session.state !== 'ended');
  const here = mine.filter(session => server === null || session.server === server);
  const elsewhere = mine.filter(session => !here.includes(session));
  return (
    <Section title={trans.__('My GPUs')} aside={trans.__('build · fixed quota %1', amount(state.me?.build_quota ?? 0))}>
      {here.map(session => (
        <Lease key={session.id} session={session} pool={state.pool} />
      ))}
      {here.length === 0 && (
        <div className="runai-Hint">{trans.__('This server has no build GPU. Jobs use the train pool.')}</div>
      )}
      {elsewhere.map(session => (
        <Lease
          key={session.id}
          session={session}
          pool={state.pool}
          title={session.server ? trans.__('Your server %1', session.server) : trans.__('Your default server')}
        />
      ))}
    </Section>
  );
}

function MyProjects({ state }: { state: PoolState }): ReactElement {
  const trans = useTrans();
  const names = state.me?.projects ?? [];
  const projects = names.flatMap(name => state.projects.find(project => project.name === name) ?? []);
  const train = state.pool?.train;
  const free = train ? trans.__('%1 of %2 free', amount(train.free), amount(train.gpus)) : '';
  return (
    <Section title={trans.__('My projects')} aside={free}>
      {projects.length > 0 ? (
        <ul className="runai-List">
          {projects.map(project => (
            <ProjectQuota key={project.name} project={project} />
          ))}
        </ul>
      ) : (
        <div className="runai-Hint">
          {trans.__('You are not a member of any project yet. Ask an administrator to add you to one.')}
        </div>
      )}
      {state.pool?.declared && <div className="runai-Hint">{trans.__('Declared GPUs: no GPU was found.')}</div>}
    </Section>
  );
}

type Tab = 'mine' | 'team';

function Jobs({
  model,
  state,
  actions,
  onNewJob,
  filterBox
}: Omit<PanelProps, 'server'> & { state: PoolState }): ReactElement {
  const trans = useTrans();
  const [tab, setTab] = useState<Tab>('mine');
  const [typed, setTyped] = useState<string | null>(null); // null: the filter is closed
  const filtering = typed !== null;
  const query = typed ?? '';
  const head = useRef<HTMLDivElement>(null);
  const filter = (open: boolean) => setTyped(open ? '' : null);
  // A search box reports its text once more when it loses the focus; ignore that if the filter is already closed.
  const change = useCallback((text: string) => setTyped(before => (before === null ? null : text)), []);
  useEffect(() => {
    if (filtering) {
      // JupyterLab's search box is a custom element that passes the focus on.
      head.current?.querySelector<HTMLElement>('input, jp-search')?.focus();
    }
  }, [filtering]);
  // A long list is rendered in slices, between frames.
  const jobs = useDeferredValue(state.jobs);
  const found = useDeferredValue(useFound(model, query, tab === 'mine'));
  const all = useMemo(() => [...jobs.values()], [jobs]);
  const mine = useMemo(() => all.filter(job => job.mine), [all]);
  // The counts in it change often, and matter to no row.
  const me = useFrozen(state.me, true, [state.me?.name, state.me?.admin, state.me?.scopes].join());
  const empty = useMemo(
    () => (query ? trans.__('No job matches “%1”.', query) : <FirstExample team={tab === 'team'} />),
    [query, tab, trans]
  );
  const labels: Record<Tab, string> = { mine: trans.__('Mine'), team: trans.__('Team') };
  const tabs: Tab[] = ['mine', 'team'];
  return (
    <section className="runai-Section" aria-label={trans.__('Jobs')}>
      <div
        className="runai-Head"
        ref={head}
        onKeyDown={event => {
          if (event.key === 'Escape' && filtering) {
            filter(false);
            head.current?.querySelector<HTMLElement>('[aria-expanded]')?.focus();
          }
        }}
      >
        <div className="runai-Tabs">
          <h2 className="runai-Tabs-title">{trans.__('Jobs')}</h2>
          <div role="tablist" aria-label={trans.__('Whose jobs')}>
            {tabs.map(name => (
              <button
                key={name}
                type="button"
                role="tab"
                id={`runai-tab-${name}`}
                aria-selected={tab === name}
                aria-controls="runai-jobs"
                tabIndex={tab === name ? 0 : -1}
                className="runai-Tab"
                onClick={() => setTab(name)}
                onKeyDown={event => {
                  if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') {
                    const other = name === 'mine' ? 'team' : 'mine';
                    setTab(other);
                    document.getElementById(`runai-tab-${other}`)?.focus();
                  }
                }}
              >
                {labels[name]} <Count state={state} whose={name} />
              </button>
            ))}
          </div>
          <button
            type="button"
            className="runai-Action"
            title={trans.__('Filter the jobs by name, owner, project, state or id')}
            aria-label={trans.__('Filter the jobs')}
            aria-expanded={filtering}
            onClick={() => filter(!filtering)}
          >
            <ActionIcon name="filter" />
          </button>
          {state.me?.scopes.includes('submit') && (
            <button
              type="button"
              className="runai-Action"
              title={trans.__('New job')}
              aria-label={trans.__('New job')}
              onClick={onNewJob}
            >
              <ActionIcon name="add" />
            </button>
          )}
        </div>
        {filtering && <div className="runai-Filter">{filterBox(query, change)}</div>}
      </div>
      <div role="tabpanel" id="runai-jobs" aria-labelledby={`runai-tab-${tab}`}>
        <JobList
          key={tab}
          jobs={tab === 'mine' ? mine : all}
          query={query}
          found={found}
          me={me}
          model={model}
          actions={actions}
          folds
          named={tab === 'team'}
          label={tab === 'mine' ? trans.__('My jobs') : trans.__('Jobs of my team')}
          empty={empty}
        />
      </div>
    </section>
  );
}

/** The number of waiting and running jobs. */
function Count({ state, whose }: { state: PoolState; whose: Tab }): ReactElement {
  const trans = useTrans();
  const { running, stopping, waiting, paused } = countsOf(state, whose);
  const count = running + stopping + waiting + paused;
  return (
    <span className="runai-Count" title={trans.__('%1 waiting or running', count.toLocaleString())}>
      {COMPACT.format(count)}
    </span>
  );
}

/** `4.9K`, since the tabs are narrow. */
const COMPACT = new Intl.NumberFormat(undefined, { notation: 'compact' });

function FirstExample({ team }: { team: boolean }): ReactElement {
  const trans = useTrans();
  return (
    <>
      <p>
        {team
          ? trans.__('No jobs in your projects yet.')
          : trans.__('To send a cell to the pool, put this line at its top and run it:')}
      </p>
      {!team && <pre className="runai-Example">%%runai_train --gpus 1 --out model</pre>}
    </>
  );
}
