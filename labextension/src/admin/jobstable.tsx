/** A table of jobs. The service sorts it: a click on a heading reads the jobs in that order. */
import { Fragment, useState, type ReactElement } from 'react';
import { useNow, useTrans } from '../components/hooks';
import { Action, JobDetails, mayAct, verbWords, verbs, type JobActions } from '../components/job';
import { StateIcon } from '../components/icons';
import type { JobView, Me } from '../model/api';
import type { Client } from '../model/client';
import type { JobOrder } from '../model/requests';
import { amount, clock, duration, sentence, shape } from '../model/format';
import { isFinal } from '../model/state';
import { Table, type Column } from './table';

export interface JobsTableProps {
  /** The id of the job whose details are shown first. */
  unfolded: string | null;
  jobs: readonly JobView[];
  me: Me | null;
  client: Client;
  actions: JobActions;
  order: JobOrder;
  setOrder: (order: JobOrder) => void;
  setPriority: (job: JobView) => void;
}

export function JobsTable(props: JobsTableProps): ReactElement {
  const { jobs, me, client, actions, order, setOrder, setPriority } = props;
  const trans = useTrans();
  const now = useNow();
  const [open, setOpen] = useState(props.unfolded);
  const column = (title: string, sort: JobOrder['sort'], className?: string): Column => {
    const first = sort === 'project' || sort === 'user' ? 'asc' : 'desc';
    const current = order.sort === sort ? order.order : null;
    const next = current === null ? first : current === 'asc' ? 'desc' : 'asc';
    return { title, className, sorted: { current, toggle: () => setOrder({ sort, order: next }) } };
  };
  const columns = [
    { title: trans.__('Job') },
    column(trans.__('Project'), 'project', 'runai-Table-text runai-Wide'),
    column(trans.__('User'), 'user', 'runai-Table-text'),
    column(trans.__('GPUs'), 'gpus'),
    column(trans.__('Priority'), 'priority'),
    column(trans.__('Submitted'), 'submitted', 'runai-Wide'),
    column(trans.__('Started'), 'started', 'runai-Wide'),
    column(trans.__('Waited'), 'waiting')
  ];
  return (
    <Table columns={columns} edit>
      {jobs.map(job => (
        <Fragment key={job.id}>
          <tr data-job={job.id} data-state={job.state} data-still="">
            <th scope="row" className="runai-Table-job">
              <button
                type="button"
                className="runai-Table-unfold"
                aria-expanded={open === job.id}
                onClick={() => setOpen(open === job.id ? null : job.id)}
              >
                <StateIcon state={job.state} />
                <span className="runai-Name" title={job.name}>
                  {job.name}
                </span>
              </button>
              <div className="runai-Job-said">{sentence(job, now, trans)}</div>
            </th>
            <td className="runai-Table-text runai-Wide">{job.project}</td>
            <td className="runai-Table-text">{job.mine ? trans.__('you') : job.user}</td>
            <td title={shape(job, trans)}>{amount(job.total_gpus)}</td>
            <td>
              {mayAct(job, me) && !isFinal(job.state) ? (
                <button
                  type="button"
                  className="runai-Link"
                  aria-label={trans.__('Priority of %1: %2', job.name, job.priority)}
                  onClick={() => setPriority(job)}
                >
                  {job.priority}
                </button>
              ) : (
                job.priority
              )}
            </td>
            <td className="runai-Wide">{clock(job.submitted, now)}</td>
            <td className="runai-Wide">{job.started === null ? '–' : clock(job.started, now)}</td>
            <td>{duration((job.started ?? job.ended ?? now) - job.submitted, trans)}</td>
            <td className="runai-Table-edit">
              {verbs(job, me).map(verb => (
                <Action
                  key={verb}
                  name={verb}
                  label={verbWords(verb, job.name, trans)}
                  tabIndex={0}
                  run={() => void actions.act(job, verb)}
                />
              ))}
            </td>
          </tr>
          {open === job.id && (
            <tr className="runai-Table-details">
              <td colSpan={columns.length + 1}>
                <JobDetails job={job} me={me} now={now} client={client} actions={actions} />
              </td>
            </tr>
          )}
        </Fragment>
      ))}
    </Table>
  );
}
