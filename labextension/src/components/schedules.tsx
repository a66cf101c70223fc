/** The caller's schedules: when they run, how the last run ended, and what can be done about them. */
import { useState, type ReactElement } from 'react';
import type { ScheduleView } from '../model/api';
import type { ScheduleVerb } from '../model/client';
import { clock, stateWord } from '../model/format';
import { timesInWords } from '../model/schedules';
import type { PoolState } from '../model/state';
import { useNow, useTrans } from './hooks';
import { StateIcon } from './icons';
import { Action, type JobActions } from './job';

interface SchedulesProps {
  state: PoolState;
  actions: JobActions;
}

export function ScheduleList({ state, actions }: SchedulesProps): ReactElement {
  const trans = useTrans();
  const [chosen, setChosen] = useState<boolean | null>(null);
  const { schedules } = state;
  const open = chosen ?? schedules.length > 0;
  return (
    <section className="runai-Section runai-Schedules" aria-label={trans.__('Schedules')}>
      <h2 className="runai-Section-title">
        <span>
          <button type="button" className="runai-Fold" aria-expanded={open} onClick={() => setChosen(!open)}>
            <span className="runai-Group-fold" aria-hidden="true" />
            {trans.__('Schedules')}
          </button>
        </span>
        <span className="runai-Aside">{schedules.length || ''}</span>
      </h2>
      {open && schedules.length === 0 && (
        <div className="runai-Section-body runai-Hint">
          {trans.__('To run a job every night, choose the times under “Schedule” when you send it.')}
        </div>
      )}
      {open && (
        <ul className="runai-List" aria-label={trans.__('My schedules')}>
          {schedules.map(schedule => (
            <ScheduleRow key={schedule.id} schedule={schedule} state={state} actions={actions} />
          ))}
        </ul>
      )}
    </section>
  );
}

interface RowProps extends SchedulesProps {
  schedule: ScheduleView;
}

function ScheduleRow({ schedule, state, actions }: RowProps): ReactElement {
  const trans = useTrans();
  const now = useNow();
  const { name, next_run: next, timezone, notice } = schedule;
  const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const last = schedule.last_job && (state.jobs.get(schedule.last_job.id) ?? schedule.last_job);
  const verbs: ScheduleVerb[] = ['run', schedule.active ? 'pause' : 'resume', 'remove'];
  const words: Record<ScheduleVerb, string> = {
    run: trans.__('Run %1 now', name),
    pause: trans.__('Pause the schedule %1', name),
    resume: trans.__('Resume the schedule %1', name),
    remove: trans.__('Remove the schedule %1', name)
  };
  const coming = !schedule.active
    ? trans.__('paused')
    : next === null
      ? trans.__('no further run')
      : trans.__('next %1', clock(next, now));
  return (
    <li className="runai-Schedule" data-schedule={schedule.id} data-active={schedule.active}>
      <div className="runai-Line">
        <span className="runai-Name" title={name}>
          {name}
        </span>
        <span className="runai-Aside">{coming}</span>
      </div>
      <div className="runai-Job-said" title={schedule.cron}>
        {timesInWords(schedule.cron, trans)}
        {timezone !== here && ` · ${timezone}`}
      </div>
      {last && (
        <div className="runai-Schedule-last">
          <StateIcon state={last.state} />
          <button type="button" className="runai-Link" onClick={() => actions.openJob?.(last.id)}>
            {last.ended === null
              ? trans.__('Last run: %1', stateWord(last.state, trans))
              : trans.__('Last run: %1 %2', stateWord(last.state, trans), clock(last.ended, now))}
          </button>
        </div>
      )}
      {notice && <div className="runai-Hint">{notice}</div>}
      {state.me?.scopes.includes('submit') && actions.actOnSchedule && (
        <div className="runai-Schedule-actions">
          {verbs.map(verb => (
            <Action
              key={verb === 'resume' ? 'pause' : verb}
              name={verb === 'remove' ? 'delete' : verb}
              label={words[verb]}
              tabIndex={0}
              run={() => void actions.actOnSchedule?.(schedule, verb)}
            />
          ))}
        </div>
      )}
    </li>
  );
}
