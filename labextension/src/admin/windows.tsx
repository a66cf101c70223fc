/** The time windows in which a project has another guarantee: their fields, values and words. */
import type { ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { WindowEntry } from '../model/api';
import { amount } from '../model/format';
import type { Trans } from '../trans';

/** A window while it is edited: its guarantee is as typed. */
export type WindowText = Omit<WindowEntry, 'guaranteed'> & { guaranteed: string };

export class InvalidWindow extends Error {}

const DAYS = ['mon-sun', 'mon-fri', 'sat,sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'];

export function windowTexts(windows: readonly WindowEntry[]): WindowText[] {
  return windows.map(window => ({
    ...window,
    guaranteed: window.guaranteed === null ? '' : String(window.guaranteed)
  }));
}

/** The windows that the texts mean. Throws `InvalidWindow`; the scheduler checks times and days. */
export function windowsOf(texts: readonly WindowText[], trans: Trans): WindowEntry[] {
  return texts.map(text => {
    const typed = text.guaranteed.trim();
    const guaranteed = typed === '' ? null : Number(typed);
    if (guaranteed !== null && !(Number.isFinite(guaranteed) && guaranteed >= 0)) {
      throw new InvalidWindow(trans.__('Write the guarantee of a time window as a number, such as 4 or 0.5.'));
    }
    return { ...text, from: text.from.trim(), to: text.to.trim(), guaranteed };
  });
}

/** `Fridays 08:00–12:00: 8` */
export function windowWords(window: WindowEntry, trans: Trans): string {
  const gpus = window.guaranteed === null ? trans.__('any') : amount(window.guaranteed);
  return trans.__('%1 %2–%3: %4', daysInWords(window.days, trans), window.from, window.to, gpus);
}

function daysInWords(days: string, trans: Trans): string {
  const names: Record<string, string> = {
    'mon-sun': trans.__('Every day'),
    'mon-fri': trans.__('Monday to Friday'),
    'sat,sun': trans.__('Weekends'),
    mon: trans.__('Mondays'),
    tue: trans.__('Tuesdays'),
    wed: trans.__('Wednesdays'),
    thu: trans.__('Thursdays'),
    fri: trans.__('Fridays'),
    sat: trans.__('Saturdays'),
    sun: trans.__('Sundays')
  };
  return names[days] ?? days;
}

interface WindowsProps {
  windows: readonly WindowText[];
  set: (windows: WindowText[]) => void;
}

export function Windows({ windows, set }: WindowsProps): ReactElement {
  const trans = useTrans();
  const change = (at: number, part: Partial<WindowText>) =>
    set(windows.map((window, place) => (place === at ? { ...window, ...part } : window)));
  const added = (): WindowText => ({
    days: 'fri',
    from: '08:00',
    to: '12:00',
    first: null,
    last: null,
    timezone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    guaranteed: ''
  });
  return (
    <fieldset className="runai-Windows">
      <legend>{trans.__('Another guarantee at certain times')}</legend>
      {windows.map((window, at) => {
        const text = (key: 'from' | 'to' | 'guaranteed', label: string) => (
          <label className="runai-Editor-field">
            {label}
            <input
              value={window[key]}
              autoComplete="off"
              onChange={event => change(at, { [key]: event.target.value })}
            />
          </label>
        );
        return (
          <div key={at} className="runai-Windows-row" role="group" aria-label={trans.__('Time window %1', at + 1)}>
            <label className="runai-Editor-field">
              {trans.__('On')}
              <select value={window.days} onChange={event => change(at, { days: event.target.value })}>
                {[...new Set([...DAYS, window.days])].map(days => (
                  <option key={days} value={days}>
                    {daysInWords(days, trans)}
                  </option>
                ))}
              </select>
            </label>
            {text('from', trans.__('From'))}
            {text('to', trans.__('To'))}
            {text('guaranteed', trans.__('GPUs then'))}
            <button
              type="button"
              className="runai-Link"
              onClick={() => set(windows.filter((_, place) => place !== at))}
            >
              {trans.__('Remove')}
            </button>
            <span className="runai-Hint">{trans.__('in the time zone %1', window.timezone)}</span>
          </div>
        );
      })}
      <button type="button" className="runai-Link" onClick={() => set([...windows, added()])}>
        {trans.__('Add a time window')}
      </button>
    </fieldset>
  );
}
