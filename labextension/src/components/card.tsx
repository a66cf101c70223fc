/** A job as a card: below the cell that submitted it, or wherever its id is stored. */
import { useRef, useState, type ReactElement } from 'react';
import type { JobView } from '../model/api';
import { sentence, shape, stateWord } from '../model/format';
import { isFinal, type IPoolModel } from '../model/state';
import { progress } from '../model/reports';
import { Figures, ProgressBar, Timeline, useReports } from './figures';
import { Files } from './files';
import { useFollowed } from './followed';
import { useKeptFocus, useNow, usePool, useShown, useStill, useTrans } from './hooks';
import { ActionIcon, StateIcon } from './icons';
import { mayReadLog, VerbButtons, verbs, type JobActions } from './job';
import { LogView } from './log';

export interface JobCardProps {
  id: string;
  model: IPoolModel;
  actions: JobActions;
  /** The output's plain text, for a job that no longer exists. */
  otherwise: string;
  /** Whether the job's output is shown below the card, so that the card need not show the end of its log. */
  follows?: boolean;
  /** Sets the variables that the job returned in the notebook that shows the card. */
  loadResults?: (job: JobView) => Promise<void>;
}

export function JobCard({ id, model, actions, otherwise, follows, loadResults }: JobCardProps): ReactElement {
  const trans = useTrans();
  const now = useNow();
  const state = usePool(model);
  const job = state.jobs.get(id);
  const problem = useFollowed(id, model, job !== undefined);
  const card = useRef<HTMLDivElement>(null);
  const [below, setBelow] = useState<'log' | 'files' | null>(null);
  const mine = !!job && mayReadLog(job, state.me);
  const line = useReports(model.client, job, mine, card);
  const told = progress(line);
  useStill(card);
  useShown(model, job ? [job] : []);
  const kept = useKeptFocus(card, '.runai-TextAction');
  if (!job) {
    return (
      <div className="runai-Card" ref={card}>
        {otherwise && <pre className="runai-Card-otherwise">{otherwise}</pre>}
        <div className="runai-Hint">{problem ?? trans.__('Loading the job…')}</div>
      </div>
    );
  }
  return (
    <div
      className="runai-Card"
      ref={card}
      role="group"
      aria-label={trans.__('Job %1', job.name)}
      data-state={job.state}
      {...kept}
    >
      <div className="runai-Card-head">
        <StateIcon state={job.state} />
        <span className="runai-Name">{job.name}</span>
        <span className="runai-Aside">
          {job.project} · {shape(job, trans)}
        </span>
        <span className="runai-Card-actions">
          {mine &&
            (['log', 'files'] as const).map(what => (
              <button
                key={what}
                type="button"
                className="runai-TextAction"
                aria-expanded={below === what}
                onClick={() => setBelow(below === what ? null : what)}
              >
                <ActionIcon name={what} />
                {what === 'log' ? trans.__('Log') : trans.__('Files')}
              </button>
            ))}
          {mine && job.state === 'succeeded' && job.outputs.length > 0 && loadResults && (
            <LoadResults job={job} load={loadResults} />
          )}
          {actions.openJob && (
            <button type="button" className="runai-TextAction" onClick={() => actions.openJob?.(job.id)}>
              <ActionIcon name="open" />
              {trans.__('Open')}
            </button>
          )}
          <VerbButtons job={job} verbs={verbs(job, state.me).filter(verb => verb !== 'delete')} actions={actions} />
        </span>
      </div>
      <div className="runai-Card-said" data-still="grows" aria-live="polite">
        {sentence(job, now, trans)}
      </div>
      {!isFinal(job.state) && <ProgressBar told={told} />}
      <Figures job={job} line={line} told={told} pool={state.pool} now={now} />
      <Timeline job={job} now={now} />
      {state.connection === 'lost' && (
        <div className="runai-Hint">
          {trans.__('Last known state: %1. The scheduler does not answer.', stateWord(job.state, trans))}
        </div>
      )}
      {below === null && !follows && mine && job.state === 'running' && (
        <LogView client={model.client} job={job} most={3} />
      )}
      {below === 'log' && (
        <>
          <LogView client={model.client} job={job} most={20} />
          {actions.openLog && (
            <button type="button" className="runai-Link" onClick={() => actions.openLog?.(job)}>
              {trans.__('Open the log in a tab')}
            </button>
          )}
        </>
      )}
      {below === 'files' && <Files client={model.client} job={job} />}
    </div>
  );
}

/** After a restart of the kernel, the variables that the job returned are no longer in the notebook. */
function LoadResults({ job, load }: { job: JobView; load: (job: JobView) => Promise<void> }): ReactElement {
  const trans = useTrans();
  const [loading, setLoading] = useState(false);
  return (
    <button
      type="button"
      className="runai-TextAction"
      title={trans.__('Set %1 in this notebook', job.outputs.join(', '))}
      aria-label={trans.__('Load results (%1)', job.outputs.join(', '))}
      disabled={loading}
      onClick={() => {
        setLoading(true);
        void load(job).finally(() => setLoading(false));
      }}
    >
      <ActionIcon name="load" />
      {trans.__('Load results')}
    </button>
  );
}
