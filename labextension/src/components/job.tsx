/** One job: a row in a list with its actions, and what is behind it. */
import type { KeyboardEvent, ReactElement } from 'react';
import type { JobView, Me } from '../model/api';
import type { Client, JobVerb } from '../model/client';
import { clock, places, sentence, shape } from '../model/format';
import { isFinal } from '../model/state';
import { useTrans } from './hooks';
import { ActionIcon, StateIcon, type ActionName } from './icons';
import { LogView } from './log';

/** What a page lets people do with jobs. It asks first where something can't be undone, and says what went wrong. */
export interface JobActions {
  act(job: JobView, verb: JobVerb): Promise<void>;
  /** Shows the whole log in a place of its own. */
  openLog?(job: JobView): void;
}

function mayAct(job: JobView, me: Me | null): boolean {
  return !!me && (me.admin || (job.mine && me.scopes.includes('submit')));
}

export function mayReadLog(job: JobView, me: Me | null): boolean {
  return job.mine && !!me?.scopes.includes('submit');
}

/** What can be done with a job now. */
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
  /** Whether it is said whose the job is. */
  named: boolean;
  open: boolean;
  onToggle: () => void;
  /** 0 for the one row of a list that Tab reaches, -1 for the others. */
  tabIndex: 0 | -1;
  onFocus?: () => void;
}

export function JobRow(props: JobRowProps): ReactElement {
  const { job, me, now, client, actions, named, open, onToggle, tabIndex } = props;
  const trans = useTrans();
  const said = sentence(job, now, trans);
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target === event.currentTarget && (event.key === 'Enter' || event.key === ' ')) {
      event.preventDefault();
      onToggle();
    }
  };
  return (
    <li className="runai-Job" data-job={job.id} data-state={job.state} data-open={open} onFocus={props.onFocus}>
      <div
        className="runai-Job-head"
        role="button"
        aria-expanded={open}
        aria-label={`${job.name}, ${shape(job, trans)}, ${said}`}
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
      </div>
      <div className="runai-Job-over">
        <div className="runai-Job-actions">
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
        {/* As wide as what stands below it: the actions end where that begins. */}
        <span className="runai-Aside" aria-hidden="true">
          {shape(job, trans)}
        </span>
      </div>
      {open && <JobDetails job={job} me={me} now={now} client={client} actions={actions} />}
    </li>
  );
}

/** Pause and resume take turns as one button, which keeps the keyboard's focus. */
export function keyOf(verb: JobVerb): string {
  return verb === 'resume' ? 'pause' : verb;
}

function verbWords(verb: JobVerb, name: string, trans: ReturnType<typeof useTrans>): string {
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

interface ActionProps {
  name: ActionName;
  label: string;
  tabIndex: 0 | -1;
  pressed?: boolean;
  run: () => void;
}

function Action({ name, label, tabIndex, pressed, run }: ActionProps): ReactElement {
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

function JobDetails({ job, me, now, client, actions }: DetailsProps): ReactElement {
  const trans = useTrans();
  const place = places(job, trans);
  const facts: [string, string][] = [
    [trans.__('Project'), job.project],
    [trans.__('Owner'), job.user],
    [trans.__('Submitted'), clock(job.submitted, now)],
    [trans.__('Waits for'), job.state === 'queued' ? job.reason : ''],
    [trans.__('Notice'), job.notice],
    [trans.__('Place'), place],
    [trans.__('Attempts'), job.attempts.length > 1 ? String(job.attempts.length) : ''],
    [trans.__('Quota'), job.over_quota ? trans.__('over quota: can be reclaimed') : '']
  ];
  return (
    <div className="runai-Job-details">
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
