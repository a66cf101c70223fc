/** One job as a card: under the cell that sent it, or wherever its id is kept. */
import { useEffect, useRef, useState, type ReactElement } from 'react';
import { sentence, shape, stateWord } from '../model/format';
import { isFinal, type IPoolModel } from '../model/state';
import { progress } from '../model/reports';
import type { Trans } from '../trans';
import { PoolError } from '../model/transport';
import { Figures, ProgressBar, Timeline, useReports } from './figures';
import { Files } from './files';
import { useKeptFocus, useNow, usePool, useShown, useStill, useTrans, useUsage } from './hooks';
import { ActionIcon, StateIcon } from './icons';
import { keyOf, mayReadLog, verbs, type JobActions } from './job';
import { LogView } from './log';

export interface JobCardProps {
  id: string;
  model: IPoolModel;
  actions: JobActions;
  /** What the output says without this renderer, for a job that nobody knows any more. */
  otherwise: string;
  /** Whether the job's output stands below the card, so that the card itself has no need to show its end. */
  follows?: boolean;
}

export function JobCard({ id, model, actions, otherwise, follows }: JobCardProps): ReactElement {
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
  useUsage(card, model, state);
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
          {verbs(job, state.me)
            .filter(verb => verb !== 'delete')
            .map(verb => (
              <button
                key={keyOf(verb)}
                type="button"
                className="runai-TextAction"
                onClick={() => void actions.act(job, verb)}
              >
                <ActionIcon name={verb} />
                {verb === 'cancel' ? trans.__('Cancel') : verb === 'pause' ? trans.__('Pause') : trans.__('Resume')}
              </button>
            ))}
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

/** Has the model know the job; what keeps it from that, if anything. */
function useFollowed(id: string, model: IPoolModel, known: boolean): string | null {
  const [problem, setProblem] = useState<string | null>(null);
  const live = usePool(model).connection;
  const trans = useTrans();
  useEffect(() => {
    if (known) {
      return;
    }
    let current = true;
    model.follow(id).then(
      () => current && setProblem(null),
      (error: unknown) => current && setProblem(sentenceOf(error, trans))
    );
    return () => {
      current = false;
    };
    // Asked again when the connection comes back.
  }, [id, model, known, live, trans]);
  return problem;
}

function sentenceOf(error: unknown, trans: Trans): string {
  if (error instanceof PoolError && error.status === 404) {
    return trans.__('This pool has no such job. It was deleted, or it belongs to another pool.');
  }
  return error instanceof Error ? error.message : String(error);
}
