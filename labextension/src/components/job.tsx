/** A job: a row in a list with its actions, and its details. */
import { memo, type KeyboardEvent, type ReactElement } from 'react';
import type { JobView, Me, NotebookCellSubmit, ScheduleView } from '../model/api';
import type { Client, JobVerb, ScheduleVerb } from '../model/client';
import { clock, metric, places, sentence, shape } from '../model/format';
import type { JobGroup } from '../model/groups';
import { progress, type Point, type Progress } from '../model/reports';
import { isFinal } from '../model/state';
import type { Trans } from '../trans';
import { ProgressBar } from './figures';
import { useTrans } from './hooks';
import { ActionIcon, StateIcon, type ActionName } from './icons';
import { LogView } from './log';

/** The actions on jobs that a page offers. It asks before irreversible ones, and shows errors. */
export interface JobActions {
  act(job: JobView, verb: JobVerb): Promise<void>;
  /** Shows the whole log in its own view. */
  openLog?(job: JobView): void;
  /** Shows all details of the job in its own view. */
  openJob?(id: string): void;
  /** Shows the cell that a job was submitted from. */
  openCell?(cell: NotebookCellSubmit): Promise<void>;
  /** Asks for another priority and sets it. */
  changePriority?(job: JobView): Promise<void>;
  /** Shows the form of a new job that has the program, the files and the options of this one, except `options`. */
  clone?(job: JobView, options?: Readonly<Record<string, string>>): Promise<void>;
  actOnSchedule?(schedule: ScheduleView, verb: ScheduleVerb): Promise<void>;
  /** Cancels all unfinished jobs of a group. */
  cancelAll?(group: JobGroup): Promise<void>;
}

export function mayAct(job: JobView, me: Me | null): boolean {
  return !!me && (me.admin || (job.mine && me.scopes.includes('submit')));
}

export function mayReadLog(job: JobView, me: Me | null): boolean {
  return job.mine && !!me?.scopes.includes('submit');
}

/** The actions that are possible now. */
export function verbs(job: JobView, me: Me | null): JobVerb[] {
  if (!mayAct(job, me)) {
    return [];
  }
  if (isFinal(job.state)) {
    return ['delete'];
  }
  return job.state === 'paused' ? ['resume', 'cancel'] : ['pause', 'cancel'];
}

export interface JobRowProps {
  job: JobView;
  me: Me | null;
  now: number;
  client: Client;
  actions: JobActions;
  /** Whether to show the owner. */
  named: boolean;
  /** The job's latest report. */
  latest?: Point | undefined;
  open: boolean;
  onToggle: (id: string) => void;
  /** 0 for the list's only row in the tab order, -1 for the others. */
  tabIndex: 0 | -1;
  onFocus: (id: string) => void;
}

/** There may be thousands: a row is drawn again only if one of its own props changes. */
export const JobRow = memo(function JobRow(props: JobRowProps): ReactElement {
  const { job, me, now, client, actions, named, open, tabIndex } = props;
  const onToggle = () => props.onToggle(job.id);
  const trans = useTrans();
  const said = sentence(job, now, trans);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target === event.currentTarget && (event.key === 'Enter' || event.key === ' ')) {
      event.preventDefault();
      onToggle();
    }
  };
  return (
    <li
      className="runai-Job"
      data-job={job.id}
      data-state={job.state}
      data-open={open}
      onFocus={() => props.onFocus(job.id)}
    >
      <div
        className="runai-Job-head"
        role="button"
        aria-expanded={open}
        tabIndex={tabIndex}
        onClick={onToggle}
        onKeyDown={onKeyDown}
        data-still=""
      >
        <StateIcon state={job.state} />
        <div className="runai-Line">
          <span className="runai-Name" title={job.name}>
            {job.name}
          </span>
          <span className="runai-Aside" data-over={job.over_quota}>
            {shape(job, trans)}
          </span>
        </div>
        <div className="runai-Job-said" title={said}>
          {named && (
            <>
              <b>{job.mine ? trans.__('you') : job.user}</b> · {job.project} ·{' '}
            </>
          )}
          {said}
        </div>
        {!isFinal(job.state) && props.latest && <RowProgress told={progress([props.latest])} />}
      </div>
      <div className="runai-Job-over">
        <div className="runai-Job-actions">
          {actions.openJob && (
            <Action
              name="open"
              label={trans.__('Open %1', job.name)}
              tabIndex={tabIndex}
              run={() => actions.openJob?.(job.id)}
            />
          )}
          {mayReadLog(job, me) && (
            <Action
              name="log"
              label={trans.__('Log of %1', job.name)}
              tabIndex={tabIndex}
              pressed={open}
              run={onToggle}
            />
          )}
          {verbs(job, me).map(verb => (
            <Action
              key={keyOf(verb)}
              name={verb}
              label={verbWords(verb, job.name, trans)}
              tabIndex={tabIndex}
              run={() => void actions.act(job, verb)}
            />
          ))}
        </div>
        {/* As wide as the content below, so that the actions end where that starts. */}
        <span className="runai-Aside" aria-hidden="true">
          {shape(job, trans)}
        </span>
      </div>
      {open && <JobDetails job={job} me={me} now={now} client={client} actions={actions} />}
    </li>
  );
});

/** The progress of a job or a group, below its status. */
export function RowProgress({ told }: { told: Pick<Progress, 'done' | 'total'> | null }): ReactElement | null {
  return told?.total ? (
    <div className="runai-Job-progress">
      <ProgressBar told={told} />
      <span className="runai-Aside">
        {metric(told.done)} / {metric(told.total)}
      </span>
    </div>
  ) : null;
}

/** Pause and resume share one button, so that it keeps the keyboard focus. */
function keyOf(verb: JobVerb): string {
  return verb === 'resume' ? 'pause' : verb;
}

function verbWord(verb: JobVerb, trans: Trans): string {
  switch (verb) {
    case 'cancel':
      return trans.__('Cancel');
    case 'pause':
      return trans.__('Pause');
    case 'resume':
      return trans.__('Resume');
    case 'delete':
      return trans.__('Delete');
  }
}

export function verbWords(verb: JobVerb, name: string, trans: Trans): string {
  switch (verb) {
    case 'cancel':
      return trans.__('Cancel %1', name);
    case 'pause':
      return trans.__('Pause %1', name);
    case 'resume':
      return trans.__('Resume %1', name);
    case 'delete':
      return trans.__('Delete %1', name);
  }
}

export interface ActionProps {
  name: ActionName;
  label: string;
  tabIndex: 0 | -1;
  pressed?: boolean;
  run: () => void;
}

export function Action({ name, label, tabIndex, pressed, run }: ActionProps): ReactElement {
  return (
    <button
      type="button"
      className="runai-Action"
      title={label}
      aria-label={label}
      aria-pressed={pressed}
      tabIndex={tabIndex}
      onClick={run}
    >
      <ActionIcon name={name} />
    </button>
  );
}

type DetailsProps = Pick<JobRowProps, 'job' | 'me' | 'now' | 'client' | 'actions'>;

export function JobDetails({ job, me, now, client, actions }: DetailsProps): ReactElement {
  const trans = useTrans();
  const place = places(job, trans);
  const facts: [string, string][] = [
    [trans.__('Project'), job.project],
    [trans.__('Owner'), job.user],
    [trans.__('Submitted'), clock(job.submitted, now)],
    [trans.__('Waits for'), job.state === 'queued' ? job.reason : ''],
    [trans.__('Notice'), job.notice],
    [trans.__('Place'), place],
    [trans.__('GPU sharing'), job.isolation],
    [trans.__('Attempts'), job.attempts.length > 1 ? String(job.attempts.length) : ''],
    [trans.__('Quota'), job.over_quota ? trans.__('over quota: can be reclaimed') : '']
  ];
  return (
    <div className="runai-Job-details">
      <Facts facts={facts} />
      {mayReadLog(job, me) && (
        <>
          <LogView client={client} job={job} most={100} />
          {actions.openLog && (
            <button type="button" className="runai-Link" onClick={() => actions.openLog?.(job)}>
              {trans.__('Open the log in a tab')}
            </button>
          )}
        </>
      )}
    </div>
  );
}

/** Names and values; a fact without a value is left out. */
export function Facts({ facts }: { facts: readonly (readonly [string, string])[] }): ReactElement {
  return (
    <dl className="runai-Facts">
      {facts
        .filter(([, value]) => value)
        .map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

interface VerbButtonsProps {
  job: JobView;
  verbs: readonly JobVerb[];
  actions: JobActions;
}

/** A button in words for each verb. */
export function VerbButtons({ job, verbs, actions }: VerbButtonsProps): ReactElement {
  const trans = useTrans();
  return (
    <>
      {verbs.map(verb => (
        <button
          key={keyOf(verb)}
          type="button"
          className="runai-TextAction"
          onClick={() => void actions.act(job, verb)}
        >
          <ActionIcon name={verb} />
          {verbWord(verb, trans)}
        </button>
      ))}
    </>
  );
}
