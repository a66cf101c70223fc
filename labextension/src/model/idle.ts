/** What the user of a notebook server that will be stopped is told. */
import type { Trans } from '../trans';
import type { SessionView } from './api';
import { clock } from './format';

type Stops = Pick<SessionView, 'server' | 'stops_at' | 'stops_because'>;

/** `Your server is idle. It stops at 14:10 unless you use it.` */
export function stopWords({ server, stops_at, stops_because }: Stops, trans: Trans): string {
  const at = clock(stops_at ?? 0, Date.now() / 1000);
  if (stops_because === 'max_duration') {
    return server
      ? trans.__(
          'Your server %1 stops at %2 because it reaches its time limit. Save your work before then.',
          server,
          at
        )
      : trans.__('Your server stops at %1 because it reaches its time limit. Save your work before then.', at);
  }
  return server
    ? trans.__('Your server %1 is idle. It stops at %2 unless you use it.', server, at)
    : trans.__('Your server is idle. It stops at %1 unless you use it.', at);
}
