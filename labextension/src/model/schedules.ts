/** The caller's schedules, which are read again after each event about one of them. */
import type { Event as PoolEvent, ScheduleView } from './api';
import type { Client } from './client';
import type { Trans } from '../trans';
import { timeOfDay, weekday as nameOf } from './format';

/** One request at a time; what changes during it is read by the next one. */
export class Schedules {
  constructor(
    private readonly _model: { readonly client: Client; readonly isDisposed: boolean },
    private readonly _put: (schedules: ScheduleView[]) => void
  ) {}

  take(event: PoolEvent): void {
    const begins = event.kind === 'stream.begin' && !event.data['resumed'];
    if (begins || event.kind.startsWith('schedule.')) {
      this._changed = true;
      this._reading ??= this._read().finally(() => (this._reading = undefined));
    }
  }

  private async _read(): Promise<void> {
    while (this._changed && !this._model.isDisposed) {
      this._changed = false;
      try {
        this._put(await this._model.client.schedules());
      } catch {
        // Keep the old ones; if the scheduler is gone, the stream's end reports it, and its next start reads them.
      }
    }
  }

  private _changed = false;
  private _reading: Promise<void> | undefined;
}

const DAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];

/** The times of a cron expression in words; an unusual expression is its own description. */
export function timesInWords(cron: string, trans: Trans): string {
  const [minute = '', hour = '', day = '', month = '', weekday = '', ...more] = cron.toLowerCase().trim().split(/\s+/);
  const usual = /^\d{1,2}$/.test(minute) && /^\d{1,2}$/.test(hour) && month === '*' && more.length === 0;
  if (!usual) {
    return cron;
  }
  const time = timeOfDay(new Date(2024, 0, 7, Number(hour), Number(minute)));
  if (day === '*') {
    const at = DAYS.includes(weekday) ? DAYS.indexOf(weekday) : /^[0-7]$/.test(weekday) ? Number(weekday) % 7 : null;
    if (at !== null) {
      return trans.__('Every %1 at %2', nameOf(at), time);
    }
    return weekday === '*'
      ? trans.__('Every day at %1', time)
      : ['mon-fri', '1-5'].includes(weekday)
        ? trans.__('Monday to Friday at %1', time)
        : cron;
  }
  return weekday === '*' && /^\d{1,2}$/.test(day) ? trans.__('On day %1 of each month at %2', day, time) : cron;
}

/** The usual times of a schedule. `time` is 24 hours, as in `02:00`; `weekday` is that of a weekly one, 0 is Sunday. */
export interface Times {
  days: 'day' | 'workday' | 'week';
  time: string;
  weekday: number;
}

/** The cron expression of the usual times. */
export function cronOf({ days, time, weekday }: Times): string {
  const [hour, minute] = time.split(':').map(Number);
  return `${minute} ${hour} * * ${days === 'day' ? '*' : days === 'workday' ? '1-5' : weekday}`;
}

/** The usual times that a cron expression stands for, or null. */
export function timesOf(cron: string): Times | null {
  const [, minute, hour, days] = /^(\d{1,2}) (\d{1,2}) \* \* (\*|1-5|[0-6])$/.exec(cron.trim()) ?? [];
  if (!days || Number(minute) > 59 || Number(hour) > 23) {
    return null;
  }
  return {
    days: days === '*' ? 'day' : days === '1-5' ? 'workday' : 'week',
    time: `${hour!.padStart(2, '0')}:${minute!.padStart(2, '0')}`,
    weekday: /^\d$/.test(days) ? Number(days) : 1
  };
}
