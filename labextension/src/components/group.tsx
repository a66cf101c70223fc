/** Jobs that were submitted together: a row with their overall status, which unfolds into their own rows. */
import { useEffect, type KeyboardEvent, type ReactElement, type ReactNode } from 'react';
import { metric, stateWord } from '../model/format';
import { bestOf, ended, stateOf, type Best, type JobGroup } from '../model/groups';
import type { Point } from '../model/reports';
import { isFinal, type IPoolModel } from '../model/state';
import type { Trans } from '../trans';
import { useTrans } from './hooks';
import { StateIcon } from './icons';
import { Action, mayAct, RowProgress, type JobActions } from './job';

export interface GroupRowProps {
  group: JobGroup;
  model: IPoolModel;
  actions: JobActions;
  latest: ReadonlyMap<string, Point>;
  /** Whether the row shows the owner of the jobs. */
  named: boolean;
  open: boolean;
  onToggle: () => void;
  tabIndex: 0 | -1;
  onFocus: () => void;
  /** The rows of its jobs, if it is unfolded. */
  children: ReactNode;
}

export function GroupRow(props: GroupRowProps): ReactElement {
  const { group, model, actions, named, open, onToggle, tabIndex } = props;
  const trans = useTrans();
  useWhole(group, model);
  const { jobs, name, size } = group;
  const first = jobs[0]!;
  const state = stateOf(jobs);
  const best = bestOf(jobs, props.latest);
  const said = inWords(group, best, trans);
  const count = trans._n('%1 job', '%1 jobs', size);
  const onKeyDown = (event: KeyboardEvent) => {
    const folds = { ArrowRight: !open, ArrowLeft: open, Enter: true, ' ': true }[event.key];
    if (folds && event.target === event.currentTarget) {
      event.preventDefault();
      onToggle();
    }
  };
  return (
    <li className="runai-Group" data-group={group.key}>
      <div className="runai-Job" data-state={state} data-open={open} onFocus={props.onFocus}>
        <div
          className="runai-Job-head"
          role="button"
          aria-expanded={open}
          tabIndex={tabIndex}
          onClick={onToggle}
          onKeyDown={onKeyDown}
          data-still=""
        >
          <StateIcon state={state} />
          <div className="runai-Line">
            <span className="runai-Name" title={name}>
              <span className="runai-Group-fold" aria-hidden="true" />
              {name}
            </span>
            <span className="runai-Aside">{count}</span>
          </div>
          <div className="runai-Job-said" title={best ? trans.__('The best is %1.', best.job.name) : said}>
            {named && (
              <>
                <b>{first.mine ? trans.__('you') : first.user}</b> · {first.project} ·{' '}
              </>
            )}
            {said}
          </div>
          {!isFinal(state) && <RowProgress told={{ done: ended(jobs), total: size }} />}
        </div>
        <div className="runai-Job-over">
          <div className="runai-Job-actions">
            {actions.cancelAll && !isFinal(state) && mayAct(first, model.state.me) && (
              <Action
                name="cancel"
                label={trans.__('Cancel all of %1', name)}
                tabIndex={tabIndex}
                run={() => void actions.cancelAll?.(group)}
              />
            )}
          </div>
          <span className="runai-Aside" aria-hidden="true">
            {count}
          </span>
        </div>
      </div>
      {open && (
        <ul className="runai-List runai-Group-jobs" aria-label={trans.__('Jobs of %1', name)}>
          {props.children}
        </ul>
      )}
    </li>
  );
}

/** `6 of 20 done, 4 running, 1 failed, best loss 0.25`. */
export function inWords({ jobs, size }: JobGroup, best: Best | null, trans: Trans): string {
  const count = (state: 'running' | 'paused' | 'failed' | 'cancelled') => {
    const found = jobs.filter(job => job.state === state).length;
    return found > 0 ? `${found} ${stateWord(state, trans)}` : '';
  };
  const parts = [
    trans.__('%1 of %2 done', ended(jobs), size),
    count('running'),
    count('paused'),
    count('failed'),
    count('cancelled'),
    best ? trans.__('best %1 %2', best.metric, metric(best.value)) : ''
  ];
  return parts.filter(Boolean).join(' · ');
}

/** A page of jobs may contain only a part of an array: the rest is read once. */
function useWhole(group: JobGroup, model: IPoolModel): void {
  const partial = group.jobs.length < group.size;
  const { key } = group;
  useEffect(() => {
    if (partial) {
      // If the request fails, the next list that shows the group tries again.
      model.client.array(key).then(
        jobs => model.know(jobs),
        () => undefined
      );
    }
  }, [key, partial, model]);
}
