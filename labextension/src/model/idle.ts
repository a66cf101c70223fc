/** What the user of a notebook server is told that is idle, or will be stopped. */
import type { Trans } from '../trans';
import type { SessionView } from './api';
import { clock } from './format';

type Idle = Pick<
  SessionView,
  'server' | 'stops_at' | 'stops_because' | 'takes_back' | 'lends_at' | 'lent_since' | 'recalled_since' | 'taken_since'
>;

/** `Your server is idle. It stops at 14:10 unless you use it.`; empty where there is nothing to tell. */
export function idleWords(session: Idle, trans: Trans): string {
  const { server, stops_at, stops_because, takes_back, lends_at } = session;
  const yours = server ? trans.__('Your server %1', server) : trans.__('Your server');
  const at = (instant: number) => clock(instant, Date.now() / 1000);
  if (stops_at !== null && stops_because === 'max_duration') {
    return trans.__(
      '%1 stops at %2 because it reaches its time limit. Save your work before then.',
      yours,
      at(stops_at)
    );
  }
  const lent = lentWords(session, yours, trans);
  if (stops_at === null || session.recalled_since !== null || session.taken_since !== null) {
    return lent;
  }
  const end = takes_back
    ? trans.__('Its GPUs are taken back and its kernels shut down at %1 unless you use it.', at(stops_at))
    : trans.__('It stops at %1 unless you use it.', at(stops_at));
  if (lent) {
    return `${lent} ${end}`;
  }
  const lends =
    lends_at === null ? '' : trans.__('Its GPUs are lent to jobs at %1 until you use it again.', at(lends_at));
  return [trans.__('%1 is idle.', yours), lends, end].filter(Boolean).join(' ');
}

function lentWords({ lent_since, recalled_since, taken_since }: Idle, yours: string, trans: Trans): string {
  const at = (instant: number) => clock(instant, Date.now() / 1000);
  if (recalled_since !== null) {
    return trans.__('%1 gets its GPUs back as soon as the job on them has saved and stopped.', yours);
  }
  if (lent_since !== null) {
    return trans.__('%1 is idle, and its GPUs have been lent to jobs since %2.', yours, at(lent_since));
  }
  return taken_since === null
    ? ''
    : trans.__(
        '%1 was idle, and its GPUs were taken back at %2. Its kernels were shut down. Restart the server to get GPUs.',
        yours,
        at(taken_since)
      );
}
