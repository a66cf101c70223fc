/** The attempts of a job: when and where each ran, and why it ended. */
import type { ReactElement } from 'react';
import type { AttemptView, JobView } from '../model/api';
import { clock, duration, places } from '../model/format';
import { useTrans } from './hooks';

export function Attempts({ job, now }: { job: JobView; now: number }): ReactElement {
  const trans = useTrans();
  if (!job.attempts.length) {
    return <div className="runai-Hint">{trans.__('The job has not started yet.')}</div>;
  }
  const why = (one: AttemptView) =>
    one.reason || (one.ended === null ? trans.__('Running.') : trans.__('Ended by itself.'));
  return (
    <table className="runai-Attempts">
      <thead>
        <tr>
          <th scope="col">{trans.__('Attempt')}</th>
          <th scope="col">{trans.__('Started')}</th>
          <th scope="col">{trans.__('Ran')}</th>
          <th scope="col">{trans.__('Place')}</th>
          <th scope="col">{trans.__('How it ended')}</th>
        </tr>
      </thead>
      <tbody>
        {[...job.attempts].reverse().map(one => (
          <tr key={one.number} data-failed={one.ending === 'failed'}>
            <th scope="row">{one.number}</th>
            <td>{one.started === null ? '–' : clock(one.started, now)}</td>
            <td>{one.started === null ? '–' : duration((one.ended ?? now) - one.started, trans)}</td>
            <td>{places({ ...job, attempts: [one] }, trans)}</td>
            <td>{why(one)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
