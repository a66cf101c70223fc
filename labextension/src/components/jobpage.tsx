/** All details of one job: status, command, attempts, metrics, log, files, and why it is in its state. */
import { useRef, useState, type KeyboardEvent, type ReactElement, type ReactNode } from 'react';
import type { JobView } from '../model/api';
import { clock, sentence, shape } from '../model/format';
import { progress } from '../model/reports';
import { isFinal, type IPoolModel, type PoolState } from '../model/state';
import type { Trans } from '../trans';
import { Attempts } from './attempts';
import { Figures, ProgressBar, Timeline, useReports } from './figures';
import { Files } from './files';
import { useFollowed } from './followed';
import { useKeptFocus, useNow, usePool, useShown, useStill, useTrans } from './hooks';
import { GpuUse } from './gpuuse';
import { ActionIcon, StateIcon } from './icons';
import { Facts, mayAct, mayReadLog, VerbButtons, verbs, type JobActions } from './job';
import { LogTab } from './logtab';
import { Metrics } from './metrics';
import { Command, settingsOf, useSubmissionOf } from './settings';
import { Why } from './why';

export interface JobPageProps {
  id: string;
  model: IPoolModel;
  actions: JobActions;
  /** Copies a text to the clipboard. */
  copy: (text: string) => void;
  /** Saves a file through the browser. */
  save: (name: string, content: Blob) => void;
}

type Tab = 'overview' | 'metrics' | 'log' | 'files' | 'why';

export function JobPage(props: JobPageProps): ReactElement {
  const { id, model } = props;
  const trans = useTrans();
  const state = usePool(model);
  const job = state.jobs.get(id);
  const problem = useFollowed(id, model, job !== undefined);
  return job ? (
    <Page {...props} job={job} state={state} />
  ) : (
    <div className="runai-Empty">{problem ?? trans.__('Loading the job…')}</div>
  );
}

function Page({
  job,
  state,
  model,
  actions,
  copy,
  save
}: JobPageProps & { job: JobView; state: PoolState }): ReactElement {
  const trans = useTrans();
  const now = useNow();
  const page = useRef<HTMLDivElement>(null);
  const [tab, setTab] = useState<Tab>('overview');
  const mine = mayReadLog(job, state.me);
  const { client } = model;
  const line = useReports(client, job, mine, page);
  const told = progress(line);
  useStill(page);
  useShown(model, [job]);
  const kept = useKeptFocus(page, '.runai-TextAction');
  const views: Record<Tab, () => ReactElement> = {
    overview: () => (
      <Overview client={client} job={job} mine={mine} now={now} actions={actions}>
        <Figures job={job} line={line} told={told} pool={state.pool} now={now} />
        <Timeline job={job} now={now} />
      </Overview>
    ),
    metrics: () => (
      <>
        <Metrics client={client} job={job} line={line} state={state} />
        <GpuUse client={client} job={job} pool={state.pool} />
      </>
    ),
    log: () => <LogTab client={client} job={job} save={save} />,
    files: () => <Files client={client} job={job} />,
    why: () => <Why model={model} job={job} actions={actions} now={now} />
  };
  const tabs = (Object.keys(views) as Tab[]).filter(name => mine || name === 'overview' || name === 'why');
  return (
    <div className="runai-JobPage" ref={page} data-state={job.state} data-job={job.id} {...kept}>
      <header className="runai-JobPage-head">
        <StateIcon state={job.state} />
        <h2 className="runai-Name">{job.name}</h2>
        <span className="runai-Aside">
          {job.project} · {shape(job, trans)} · {job.id}
        </span>
        <span className="runai-Card-actions">
          <button type="button" className="runai-TextAction" onClick={() => copy(job.id)}>
            <ActionIcon name="copy" />
            {trans.__('Copy id')}
          </button>
          {actions.clone && mine && (
            <button type="button" className="runai-TextAction" onClick={() => void actions.clone?.(job)}>
              <ActionIcon name="add" />
              {trans.__('Clone…')}
            </button>
          )}
          {actions.changePriority && mayAct(job, state.me) && !isFinal(job.state) && (
            <button type="button" className="runai-TextAction" onClick={() => void actions.changePriority?.(job)}>
              <ActionIcon name="priority" />
              {trans.__('Priority %1…', job.priority)}
            </button>
          )}
          <VerbButtons job={job} verbs={verbs(job, state.me)} actions={actions} />
        </span>
      </header>
      <div className="runai-JobPage-said" aria-live="polite" data-still="grows">
        {sentence(job, now, trans)}
      </div>
      {!isFinal(job.state) && <ProgressBar told={told} />}
      <Tabs tabs={tabs} tab={tab} choose={setTab} />
      <div role="tabpanel" className="runai-JobPage-view" aria-label={tabName(tab, trans)}>
        {views[tab]()}
      </div>
    </div>
  );
}

function tabName(tab: Tab, trans: Trans): string {
  switch (tab) {
    case 'overview':
      return trans.__('Overview');
    case 'metrics':
      return trans.__('Metrics');
    case 'log':
      return trans.__('Log');
    case 'files':
      return trans.__('Files');
    case 'why':
      return trans.__('Why?');
  }
}

function Tabs({ tabs, tab, choose }: { tabs: Tab[]; tab: Tab; choose: (tab: Tab) => void }): ReactElement {
  const trans = useTrans();
  const list = useRef<HTMLDivElement>(null);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      const at = (tabs.indexOf(tab) + step + tabs.length) % tabs.length;
      choose(tabs[at]!);
      (list.current?.children[at] as HTMLElement).focus();
    }
  };
  return (
    <div className="runai-JobPage-tabs" role="tablist" aria-label={trans.__('Views of the job')} ref={list}>
      {tabs.map(name => (
        <button
          key={name}
          type="button"
          role="tab"
          aria-selected={tab === name}
          tabIndex={tab === name ? 0 : -1}
          className="runai-Tab"
          onClick={() => choose(name)}
          onKeyDown={onKeyDown}
        >
          {tabName(name, trans)}
        </button>
      ))}
    </div>
  );
}

interface OverviewProps {
  client: IPoolModel['client'];
  job: JobView;
  mine: boolean;
  now: number;
  actions: JobActions;
  children: ReactNode;
}

function Overview({ client, job, mine, now, actions, children }: OverviewProps): ReactElement {
  const trans = useTrans();
  const sent = useSubmissionOf(client, job.id, mine);
  const facts: [string, string][] = [
    [trans.__('Owner'), job.user],
    [trans.__('Submitted'), clock(job.submitted, now)],
    [trans.__('Last checkpoint'), job.checkpointed === null ? '' : clock(job.checkpointed, now)],
    [trans.__('Notice'), job.notice],
    [trans.__('Quota'), job.over_quota ? trans.__('over quota: can be reclaimed') : ''],
    ...(sent ? settingsOf(sent, trans) : [])
  ];
  return (
    <>
      {children}
      <h3>{trans.__('Attempts')}</h3>
      <Attempts job={job} now={now} />
      {sent && (
        <>
          <h3>{trans.__('Command')}</h3>
          <Command sent={sent} />
          {sent.cell && actions.openCell && (
            <button type="button" className="runai-TextAction" onClick={() => void actions.openCell?.(sent.cell!)}>
              <ActionIcon name="open" />
              {trans.__('Go to the cell in %1', sent.cell.notebook)}
            </button>
          )}
        </>
      )}
      <h3>{trans.__('Options')}</h3>
      <Facts facts={facts} />
    </>
  );
}
