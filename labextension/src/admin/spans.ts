/** The time spans of the usage view. Days, weeks and months are in UTC, like the records. */
import type { UsageQuery } from '../model/requests';
import type { Trans } from '../trans';

/** The spans of charts that end now, in seconds. */
export const LATEST = { hour: 3600, day: 86_400, week: 7 * 86_400, month: 30 * 86_400 } as const;
export type Latest = keyof typeof LATEST;

export const SPANS = ['day', 'week', 'month', 'this-month', 'last-month', 'year'] as const;
export type Span = (typeof SPANS)[number];
type Every = UsageQuery['every'];

const HOUR = 3600;
const DAY = 24 * HOUR;

export function spanName(span: Span | Latest, trans: Trans): string {
  const names: Record<Span | Latest, string> = {
    hour: trans.__('last hour'),
    day: trans.__('last 24 hours'),
    week: trans.__('last 7 days'),
    month: trans.__('last 30 days'),
    'this-month': trans.__('this month'),
    'last-month': trans.__('last month'),
    year: trans.__('last 13 months')
  };
  return names[span];
}

/** The start, end and period length of a span. */
export function spanOf(span: Span, now: number): Pick<UsageQuery, 'since' | 'until' | 'every'> {
  const today = now - (now % DAY);
  const spans: Record<Span, [since: number, until: number, every: Every]> = {
    day: [now - (now % HOUR) - 23 * HOUR, now, 'hour'],
    week: [today - 6 * DAY, now, 'day'],
    month: [today - 29 * DAY, now, 'day'],
    'this-month': [monthsAgo(0, now), now, 'day'],
    'last-month': [monthsAgo(1, now), monthsAgo(0, now), 'day'],
    year: [monthsAgo(12, now), now, 'month']
  };
  const [since, until, every] = spans[span];
  return { since, until, every };
}

/** The start of each period, including periods without usage. */
export function periodsOf({ since, until, every }: Pick<UsageQuery, 'since' | 'until' | 'every'>): number[] {
  const starts: number[] = [];
  for (let start = since; start < until; start = after(start, every)) {
    starts.push(start);
  }
  return starts;
}

function after(start: number, every: Every): number {
  return every === 'month' ? monthsAgo(-1, start) : start + (every === 'hour' ? HOUR : every === 'day' ? DAY : 7 * DAY);
}

function monthsAgo(months: number, now: number): number {
  const date = new Date(1000 * now);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - months) / 1000;
}

/** The label of a period, from its start: `14:00`, `12 Nov`, `Nov 2026`. */
export function periodName(start: number, every: Every): string {
  const options: Record<Every, Intl.DateTimeFormatOptions> = {
    hour: { hour: '2-digit', minute: '2-digit' },
    day: { day: 'numeric', month: 'short' },
    week: { day: 'numeric', month: 'short' },
    month: { month: 'short', year: 'numeric' }
  };
  return new Intl.DateTimeFormat(undefined, { ...options[every], timeZone: 'UTC' }).format(1000 * start);
}
