/** The times of a schedule: once and now, at a time of the usual days, or those of a cron expression. */
import { useState, type ReactElement } from 'react';
import { cronOf, timesOf, type Times } from '../model/schedules';
import { weekday } from '../model/format';
import { useTrans } from './hooks';

/** The times that are offered first. */
const NIGHT: Times = { days: 'day', time: '02:00', weekday: 1 };

interface TimesFieldProps {
  /** The cron expression; empty: once, now. */
  cron: string;
  change: (cron: string) => void;
  described: { id: string; name: string; title: string };
}

export function TimesField({ cron, change, described }: TimesFieldProps): ReactElement {
  const trans = useTrans();
  const times = timesOf(cron);
  const [written, setWritten] = useState(false);
  /** What is being written, while it is no expression. */
  const [draft, setDraft] = useState<string | null>(null);
  const chosen = !cron ? 'once' : written || !times ? 'cron' : times.days;
  const choose = (choice: string) => {
    setWritten(choice === 'cron');
    const known = times ?? NIGHT;
    change(
      choice === 'once'
        ? ''
        : choice === 'cron'
          ? cron || cronOf(known)
          : cronOf({ ...known, days: choice as Times['days'] })
    );
  };
  return (
    <div className="runai-Times">
      <select {...described} className="jp-mod-styled" value={chosen} onChange={event => choose(event.target.value)}>
        <option value="once">{trans.__('Once, now')}</option>
        <option value="day">{trans.__('Every day')}</option>
        <option value="workday">{trans.__('Monday to Friday')}</option>
        <option value="week">{trans.__('Every week')}</option>
        <option value="cron">{trans.__('Cron expression')}</option>
      </select>
      {chosen === 'week' && times && (
        <select
          className="jp-mod-styled"
          aria-label={trans.__('Day of the week')}
          value={times.weekday}
          onChange={event => change(cronOf({ ...times, weekday: Number(event.target.value) }))}
        >
          {[1, 2, 3, 4, 5, 6, 0].map(day => (
            <option key={day} value={day}>
              {weekday(day)}
            </option>
          ))}
        </select>
      )}
      {chosen !== 'once' && chosen !== 'cron' && times && (
        <input
          type="time"
          className="jp-mod-styled"
          aria-label={trans.__('Time of day')}
          value={times.time}
          onChange={event => event.target.value && change(cronOf({ ...times, time: event.target.value }))}
        />
      )}
      {chosen === 'cron' && (
        <input
          type="text"
          className="jp-mod-styled"
          aria-label={trans.__('Cron expression')}
          spellCheck={false}
          autoComplete="off"
          value={draft ?? cron}
          onChange={event => {
            const text = event.target.value;
            setDraft(text.trim() ? null : text);
            if (text.trim()) {
              change(text);
            }
          }}
          onBlur={() => setDraft(null)}
        />
      )}
    </div>
  );
}
