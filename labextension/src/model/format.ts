/** Formats times, amounts and states: short, localised, with units. */
import type { DryRunView, JobState, JobView } from './api';
import type { Trans } from '../trans';

/** A duration: `<1 s`, `41 s`, `38 min`, `2 h 10 min`, `3 d 4 h`. */
export function duration(seconds: number, trans: Trans): string {
  return said(seconds, trans).replaceAll(' ', '\u00a0'); // never broken across lines
}

function said(seconds: number, trans: Trans): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 1) {
    return trans.__('<1 s');
  }
  if (whole < 60) {
    return trans.__('%1 s', whole);
  }
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) {
    return trans.__('%1 min', minutes);
  }
  const hours = Math.floor(minutes / 60);
  if (hours < 24) {
    return minutes % 60 ? trans.__('%1 h %2 min', hours, minutes % 60) : trans.__('%1 h', hours);
  }
  const days = Math.floor(hours / 24);
  return hours % 24 ? trans.__('%1 d %2 h', days, hours % 24) : trans.__('%1 d', days);
}

// Making a format takes longer than using it, and a list uses one in every row.
const TIME: Intl.DateTimeFormatOptions = { hour: '2-digit', minute: '2-digit' };
const TODAY = new Intl.DateTimeFormat(undefined, TIME);
const THIS_WEEK = new Intl.DateTimeFormat(undefined, { ...TIME, weekday: 'short' });
const ANY_DAY = new Intl.DateTimeFormat(undefined, { ...TIME, day: 'numeric', month: 'short' });
const AMOUNT = new Intl.NumberFormat(undefined, { maximumFractionDigits: 2 });
const WHOLE = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 21 });
const FRACTION = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 4 });

/** The time of a day as the reader's locale writes it: `14:20`, `02:20 PM`. */
export function timeOfDay(date: Date): string {
  return TODAY.format(date);
}

/** The name of a day of the week; 0 is Sunday. */
export function weekday(day: number): string {
  return new Date(2024, 0, 7 + day).toLocaleDateString(undefined, { weekday: 'long' }); // 7 January 2024 was a Sunday
}

/** A point in time, in seconds since the epoch, relative to `now`: `14:20`, `Mon 14:20`, `12 Jan, 14:20`. */
export function clock(time: number, now: number): string {
  const date = new Date(time * 1000);
  const today = new Date(now * 1000);
  if (date.toDateString() === today.toDateString()) {
    return TODAY.format(date);
  }
  return (Math.abs(time - now) < 6 * 86_400 ? THIS_WEEK : ANY_DAY).format(date);
}

/** `2026-03-01 14:10:05`: of one length, so that lines align. */
export function stamp(time: number): string {
  const at = new Date((time - 60 * new Date(time * 1000).getTimezoneOffset()) * 1000);
  return at.toISOString().slice(0, 19).replace('T', ' ');
}

/** A number of GPUs without its unit: at most two decimals. */
export function amount(gpus: number): string {
  return AMOUNT.format(gpus);
}

/** A reported number: at most four significant digits after the point. */
export function metric(value: number): string {
  return (value % 1 ? FRACTION : WHOLE).format(value);
}

export function gpus(count: number, trans: Trans): string {
  return count === 1 ? trans.__('%1 GPU', amount(count)) : trans.__('%1 GPUs', amount(count));
}

/** The resources that a job requests: `4 × 2 GPUs`, `1 GPU`, `no GPU`. */
export function shape(job: JobView, trans: Trans): string {
  const each = job.gpus > 0 ? gpus(job.gpus, trans) : trans.__('no GPU');
  return job.workers > 1 ? trans.__('%1 × %2', job.workers, each) : each;
}

export function percent(part: number): string {
  return new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 0 }).format(part);
}

export function gib(amountOfMemory: number, trans: Trans): string {
  return trans.__('%1 GiB', new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 }).format(amountOfMemory));
}

/** A number of bytes: `127 B`, `1.2 MiB`. */
export function bytes(count: number, trans: Trans): string {
  const units = [trans.__('B'), trans.__('KiB'), trans.__('MiB'), trans.__('GiB'), trans.__('TiB')];
  const power = Math.min(units.length - 1, count ? Math.floor(Math.log2(count) / 10) : 0);
  const value = new Intl.NumberFormat(undefined, { maximumFractionDigits: power ? 1 : 0 });
  return `${value.format(count / 1024 ** power)} ${units[power]}`;
}

export function stateWord(state: JobState, trans: Trans): string {
  switch (state) {
    case 'queued':
      return trans.__('queued');
    case 'starting':
      return trans.__('starting');
    case 'running':
      return trans.__('running');
    case 'stopping':
      return trans.__('stopping');
    case 'paused':
      return trans.__('paused');
    case 'succeeded':
      return trans.__('succeeded');
    case 'failed':
      return trans.__('failed');
    case 'cancelled':
      return trans.__('cancelled');
  }
}

/** Where a running job is placed: `n3 GPU 0–3, n4 GPU 0`. */
export function places(job: JobView, trans: Trans): string {
  const attempt = job.attempts[job.attempts.length - 1];
  const byNode = new Map<string, number[]>();
  for (const worker of attempt?.workers ?? []) {
    byNode.set(worker.node, [...(byNode.get(worker.node) ?? []), ...worker.gpus]);
  }
  return [...byNode]
    .map(([node, indices]) => (indices.length ? trans.__('%1 GPU %2', node, ranges(indices)) : node))
    .join(', ');
}

/** `0–3, 5` for 0, 1, 2, 3 and 5; a range is never broken across lines. */
export function ranges(indices: readonly number[]): string {
  const sorted = [...new Set(indices)].sort((a, b) => a - b);
  const parts: string[] = [];
  for (let i = 0; i < sorted.length;) {
    let j = i;
    while (j + 1 < sorted.length && sorted[j + 1] === sorted[j]! + 1) {
      j += 1;
    }
    parts.push(
      i === j
        ? `${sorted[i]}`
        : j === i + 1
          ? `${sorted[i]},\u00a0${sorted[j]}`
          : `${sorted[i]}\u2060–\u2060${sorted[j]}`
    );
    i = j + 1;
  }
  return parts.join(', ');
}

/** How long the current attempt has run; null if the job has not started. */
function running(job: JobView, now: number): number | null {
  const started = job.attempts.at(-1)?.started ?? job.started;
  return started === null ? null : now - started;
}

/** The total run time of a finished job's attempts; null if it never started. */
function ran(job: JobView): number | null {
  const spans = job.attempts.flatMap(one => (one.started === null ? [] : (one.ended ?? job.ended ?? 0) - one.started));
  return spans.length ? spans.reduce((a, b) => a + b) : null;
}

/** When a queued job started to wait: the end of its latest attempt, or its submission. */
export function waitingSince(job: JobView): number {
  return job.attempts[job.attempts.length - 1]?.ended ?? job.submitted;
}

/** The line below a job's name: its state and, if the scheduler gave one, the reason. */
export function sentence(job: JobView, now: number, trans: Trans): string {
  switch (job.state) {
    case 'running':
      return join(trans.__('running %1', duration(running(job, now) ?? 0, trans)), places(job, trans));
    case 'starting':
      return join(trans.__('starting'), places(job, trans));
    case 'queued':
      if (job.notice) {
        return paused(job, now, trans);
      }
      return join(
        job.position === null ? '' : inLine(job.position, trans),
        likely(job, now, trans),
        job.reason || trans.__('waiting %1', duration(now - waitingSince(job), trans))
      );
    case 'stopping':
    case 'paused':
      return join(stateWord(job.state, trans), news(job, trans));
    case 'succeeded':
      return ending(job, now, trans);
    case 'failed':
    case 'cancelled':
      return join(ending(job, now, trans), news(job, trans));
  }
}

function ending(job: JobView, now: number, trans: Trans): string {
  const word = stateWord(job.state, trans);
  const at = clock(job.ended ?? now, now);
  const took = ran(job);
  return took === null ? trans.__('%1 %2', word, at) : trans.__('%1 %2 after %3', word, at, duration(took, trans));
}

/** The reason without the state it starts with, which is already shown. */
export function news(job: JobView, trans: Trans): string {
  const word = stateWord(job.state, trans);
  const same = job.reason.toLowerCase().startsWith(word);
  return same ? job.reason.slice(word.length).replace(/^[\s.;:,]+/, '') : job.reason;
}

/** The outcome of a dry run. `saves`: whether what is sent may save anything while it runs. */
export function outcome(found: DryRunView, saves: boolean, now: number, trans: Trans): string {
  if (!found.starts) {
    return join(likely(found, now, trans), found.reason).replace(/^./, letter => letter.toUpperCase());
  }
  const starts = found.after
    ? trans._n('Starts once %1 job has made room.', 'Starts once %1 jobs have made room.', found.after)
    : trans.__('Starts now.');
  const over = saves
    ? trans.__(
        'It is over quota: it is paused when another project needs its guaranteed GPUs, and loses what it has not saved.'
      )
    : trans.__(
        'It is over quota, and this cell saves nothing: when another project needs its guaranteed GPUs, the job is paused and later starts again from the beginning.'
      );
  return found.over_quota ? `${starts} ${over}` : starts;
}

/** The estimated start; once the estimate has passed, the job is about to start. */
function likely(
  job: Pick<JobView, 'estimated_start' | 'earliest_start' | 'latest_start'>,
  now: number,
  trans: Trans
): string {
  const start = job.estimated_start;
  if (start === null) {
    return '';
  }
  return start <= now ? trans.__('about to start') : trans.__('starts %1', around(start, job, now, trans));
}

/** The message of a job that is paused for another one, with its estimated resume time. */
function paused(job: JobView, now: number, trans: Trans): string {
  const start = job.estimated_start;
  if (start === null) {
    return job.notice;
  }
  const notice = job.notice.replace(/\.$/, '');
  return start <= now
    ? trans.__('%1; resumes at any moment', notice)
    : trans.__('%1; resumes at %2', notice, around(start, job, now, trans));
}

/** `about 14:10 (14:05 to 14:40)` */
function around(
  start: number,
  job: Pick<JobView, 'earliest_start' | 'latest_start'>,
  now: number,
  trans: Trans
): string {
  const [earliest, latest] = [job.earliest_start, job.latest_start].map(at => clock(Math.max(at ?? start, now), now));
  return earliest === latest
    ? trans.__('about %1', clock(start, now))
    : trans.__('about %1 (%2 to %3)', clock(start, now), earliest, latest);
}

function inLine(position: number, trans: Trans): string {
  return position === 1 ? trans.__('next in line') : trans.__('number %1 in line', position);
}

/** Joins the known facts in one line and removes full stops inside it. */
function join(...parts: string[]): string {
  const known = parts.map(part => part.trim()).filter(Boolean);
  return known.map((part, at) => (at < known.length - 1 ? part.replace(/\.$/, '') : part)).join(' · ');
}
