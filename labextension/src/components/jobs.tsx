/** A list of jobs: those that wait or run first, then those that have ended; still while the pointer is at work. */
import { useContext, useMemo, useRef, useState, type KeyboardEvent, type ReactElement, type ReactNode } from 'react';
import type { JobState, JobView, Me } from '../model/api';
import { isFinal, type IPoolModel } from '../model/state';
import { StillContext, useFrozen, useKeptFocus, useNow, useShown, useTrans } from './hooks';
import { JobRow, type JobActions } from './job';

export interface JobListProps {
  jobs: readonly JobView[];
  me: Me | null;
  model: IPoolModel;
  actions: JobActions;
  named: boolean;
  label: string;
  /** What is shown is only what answers to it. */
  query?: string;
  /** What stands here where there is no job. */
  empty: ReactNode;
  /** The order of those that have not ended; the newest first where absent. */
  order?: (a: JobView, b: JobView) => number;
}

const FIRST = 50;

export function JobList(props: JobListProps): ReactElement {
  const { jobs, me, model, actions, named, label } = props;
  const trans = useTrans();
  const now = useNow();
  const list = useRef<HTMLDivElement>(null);
  const kept = useKeptFocus(list, '.runai-Job-head[tabindex="0"]');
  const byId = useMemo(() => new Map(jobs.map(job => [job.id, job])), [jobs]);
  const order = useFrozen(
    useMemo(() => ordered(jobs, props.order), [jobs, props.order]),
    useContext(StillContext)
  );
  const [open, setOpen] = useState<string | null>(null);
  const [current, setCurrent] = useState<string | null>(null);
  const [most, setMost] = useState(FIRST);

  // A held row shows the job as it is now, or as it was where it has gone to another list meanwhile. One that had ended goes
  // nowhere else: it was deleted.
  const rows = order.flatMap(({ job: before, ended }) => {
    const job = byId.get(before.id) ?? (ended ? null : before);
    return job && matches(job, props.query ?? '') ? [{ job, ended }] : [];
  });
  const shown = rows.slice(0, most);
  useShown(
    model,
    shown.map(row => row.job)
  );
  const reached = shown.some(row => row.job.id === current) ? current : shown[0]?.job.id;

  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    const heads = [...(list.current?.querySelectorAll<HTMLElement>('.runai-Job-head') ?? [])];
    // From a row or from one of its actions, but not from its log, which scrolls.
    const row = (event.target as Element).closest('.runai-Job-head, .runai-Job-over')?.parentElement;
    const at = heads.findIndex(head => head.parentElement === row);
    if (step && at >= 0) {
      event.preventDefault();
      heads[at + step]?.focus();
    }
  };
  const group = (ended: boolean) =>
    shown
      .filter(row => row.ended === ended)
      .map(({ job }) => (
        <JobRow
          key={job.id}
          job={job}
          me={me}
          now={now}
          client={model.client}
          actions={actions}
          named={named}
          open={open === job.id}
          onToggle={() => setOpen(open === job.id ? null : job.id)}
          tabIndex={reached === job.id ? 0 : -1}
          onFocus={() => setCurrent(job.id)}
        />
      ));
  const ended = group(true);
  return (
    <div ref={list} onKeyDown={onKeyDown} className="runai-Jobs" {...kept}>
      {shown.length === 0 && <div className="runai-Empty">{props.empty}</div>}
      <ul className="runai-List" aria-label={label}>
        {group(false)}
      </ul>
      {ended.length > 0 && (
        <>
          <div className="runai-Subtitle">{trans.__('Ended')}</div>
          <ul className="runai-List" aria-label={trans.__('%1, ended', label)}>
            {ended}
          </ul>
        </>
      )}
      {rows.length > most && (
        <button type="button" className="runai-Link runai-More" onClick={() => setMost(most + 4 * FIRST)}>
          {trans._n('Show %1 more job', 'Show %1 more jobs', rows.length - most)}
        </button>
      )}
    </div>
  );
}

/**
 * The order of a list: what holds GPUs, what waits, what is paused, the newest on top and the jobs of an array together by
 * their numbers; then what has ended, the latest on top.
 */
export function ordered(
  jobs: readonly JobView[],
  order: (a: JobView, b: JobView) => number = newest(jobs)
): { job: JobView; ended: boolean }[] {
  return jobs
    .map(job => ({ job, ended: isFinal(job.state) }))
    .sort(
      (a, b) =>
        Number(a.ended) - Number(b.ended) ||
        (a.ended ? (b.job.ended ?? 0) - (a.job.ended ?? 0) : order(a.job, b.job)) ||
        (a.job.index ?? 0) - (b.job.index ?? 0) ||
        (a.job.id < b.job.id ? -1 : 1)
    );
}

const RANK: Partial<Record<JobState, number>> = { queued: 1, paused: 2 };

function newest(jobs: readonly JobView[]): (a: JobView, b: JobView) => number {
  // The jobs of an array stay together, though they were submitted one after the other.
  const begun = new Map<string, number>();
  for (const { array, submitted } of jobs) {
    if (array !== null) {
      begun.set(array, Math.min(submitted, begun.get(array) ?? submitted));
    }
  }
  const submitted = (job: JobView) => (job.array === null ? undefined : begun.get(job.array)) ?? job.submitted;
  const group = (job: JobView) => job.array ?? '';
  return (a, b) =>
    (RANK[a.state] ?? 0) - (RANK[b.state] ?? 0) ||
    submitted(b) - submitted(a) ||
    Number(group(a) > group(b)) - Number(group(a) < group(b));
}

/** Whether a job answers to what was typed: its name, owner, project, state or id. */
export function matches(job: JobView, query: string): boolean {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const text = [job.name, job.user, job.project, job.state, job.id].join('\n').toLowerCase();
  return words.every(word => text.includes(word));
}
