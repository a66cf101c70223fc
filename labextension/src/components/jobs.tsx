/** A list of jobs: unfinished jobs first, then finished ones. It does not change while the pointer is active. */
import {
  memo,
  useCallback,
  useContext,
  useMemo,
  useRef,
  useState,
  type KeyboardEvent,
  type ReactElement,
  type ReactNode
} from 'react';
import type { JobState, JobView, Me } from '../model/api';
import { isFinal, type IPoolModel } from '../model/state';
import { byNumber, groupsOf, type JobGroup } from '../model/groups';
import type { Found } from './found';
import { GroupRow } from './group';
import { StillContext, useFrozen, useKeptFocus, useNow, useShown, useTrans } from './hooks';
import { JobRow, type JobActions } from './job';
import { useLatest } from './latest';

export interface JobListProps {
  jobs: readonly JobView[];
  me: Me | null;
  model: IPoolModel;
  actions: JobActions;
  named: boolean;
  label: string;
  /** Only jobs that match the query are shown. */
  query?: string;
  /** The text for an empty list. */
  empty: ReactNode;
  /** The order of unfinished jobs; default: newest first. */
  order?: (a: JobView, b: JobView) => number;
  /** Further jobs that are not in `jobs` yet. */
  found?: Found;
  /** Whether jobs that were submitted together share a row, which unfolds. */
  folds?: boolean;
}

const FIRST = 50;
const STEP = 200;

/** A job, or jobs that were submitted together, with those that match the query. */
interface Row {
  readonly key: string;
  readonly ended: boolean;
  readonly group: JobGroup | null;
  readonly jobs: JobView[];
}

/** There may be thousands: the list is rendered again only if one of its own props changes, or each second. */
export const JobList = memo(function JobList(props: JobListProps): ReactElement {
  const { jobs, me, model, actions, named, label, folds } = props;
  const trans = useTrans();
  const now = useNow();
  const list = useRef<HTMLDivElement>(null);
  const kept = useKeptFocus(list, '.runai-Job-head[tabindex="0"]');
  const byId = useMemo(() => new Map(jobs.map(job => [job.id, job])), [jobs]);
  const groups = useMemo(() => (folds ? groupsOf(jobs) : new Map<string, JobGroup>()), [jobs, folds]);
  const order = useFrozen(
    useMemo(() => ordered(jobs, props.order), [jobs, props.order]),
    useContext(StillContext),
    props.found?.pages
  );
  const [open, setOpen] = useState<string | null>(null);
  const [unfolded, setUnfolded] = useState<ReadonlySet<string>>(new Set());
  const [current, setCurrent] = useState<string | null>(null);
  const [most, setMost] = useState(FIRST);

  // A held row shows the job's current state, or its last known one if it has moved to another list. A finished job
  // moves nowhere: if it is missing, it was deleted.
  const found = order.flatMap(({ job: before, ended }) => {
    const job = byId.get(before.id) ?? (ended ? null : before);
    return job && matches(job, props.query ?? '') ? [{ job, ended }] : [];
  });
  const rows = folded(found, groups);
  const shown = rows.slice(0, most);
  const inside = (row: Row) => (row.group ? (unfolded.has(row.key) ? row.jobs : []) : row.jobs);
  const visible = shown.flatMap(inside);
  useShown(model, visible);
  const latest = useLatest(list, model.client, folds ? shown.flatMap(row => row.group?.jobs ?? row.jobs) : NONE);
  const keys = shown.flatMap(row => [...(row.group ? [row.key] : []), ...inside(row).map(job => job.id)]);
  const reached = current !== null && keys.includes(current) ? current : keys[0];

  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    const heads = [...(list.current?.querySelectorAll<HTMLElement>('.runai-Job-head') ?? [])];
    // Arrow keys work on a row and its actions, but not in its log, which scrolls.
    const row = (event.target as Element).closest('.runai-Job-head, .runai-Job-over')?.parentElement;
    const at = heads.findIndex(head => head.parentElement === row);
    if (step && at >= 0) {
      event.preventDefault();
      heads[at + step]?.focus();
    }
  };
  const toggleJob = useCallback((id: string) => setOpen(before => (before === id ? null : id)), []);
  const jobRow = (job: JobView) => (
    <JobRow
      key={job.id}
      job={job}
      me={me}
      now={open === job.id || ticks(job) ? now : now - (now % 60)}
      client={model.client}
      actions={actions}
      named={named}
      latest={latest.get(job.id)}
      open={open === job.id}
      onToggle={toggleJob}
      tabIndex={reached === job.id ? 0 : -1}
      onFocus={setCurrent}
    />
  );
  const toggle = (key: string) => {
    const others = [...unfolded].filter(other => other !== key);
    setUnfolded(new Set(unfolded.has(key) ? others : [...others, key]));
  };
  const section = (ended: boolean) =>
    shown
      .filter(row => row.ended === ended)
      .map(row =>
        row.group ? (
          <GroupRow
            key={row.key}
            group={row.group}
            model={model}
            actions={actions}
            latest={latest}
            named={named}
            open={unfolded.has(row.key)}
            onToggle={() => toggle(row.key)}
            tabIndex={reached === row.key ? 0 : -1}
            onFocus={() => setCurrent(row.key)}
          >
            {row.jobs.map(jobRow)}
          </GroupRow>
        ) : (
          row.jobs.map(jobRow)
        )
      );
  const ended = section(true);
  const more = rows.slice(most).flatMap(row => row.jobs).length;
  const further = props.found?.more;
  return (
    <div ref={list} onKeyDown={onKeyDown} className="runai-Jobs" {...kept}>
      {shown.length === 0 && !props.found?.loading && <div className="runai-Empty">{props.empty}</div>}
      <ul className="runai-List" aria-label={label}>
        {section(false)}
      </ul>
      {ended.length > 0 && (
        <>
          <div className="runai-Subtitle">{trans.__('Ended')}</div>
          <ul className="runai-List" aria-label={trans.__('%1, ended', label)}>
            {ended}
          </ul>
        </>
      )}
      {(more > 0 || further) && (
        <button
          type="button"
          className="runai-Link runai-More"
          onClick={() => {
            setMost(most + STEP);
            if (more < STEP) {
              further?.();
            }
          }}
        >
          {further ? trans.__('Show more jobs') : trans._n('Show %1 more job', 'Show %1 more jobs', more)}
        </button>
      )}
      {props.found?.loading && <div className="runai-Hint runai-More">{trans.__('Loading jobs…')}</div>}
    </div>
  );
});

/** Whether a row shows a time that changes each second. */
function ticks({ state, reason }: JobView): boolean {
  return state === 'queued' ? !reason : !isFinal(state);
}

const NONE: readonly JobView[] = [];

/** The jobs of a group share one row at the first one's place; the group has ended when all its jobs have. */
function folded(
  found: readonly { job: JobView; ended: boolean }[],
  groups: ReadonlyMap<string, JobGroup>
): readonly Row[] {
  const rows = new Map<string, Row>();
  for (const { job, ended } of found) {
    const group = groups.get(job.id) ?? null;
    const key = group?.key ?? job.id;
    const row = rows.get(key);
    if (row) {
      row.jobs.push(job);
    } else {
      rows.set(key, { key, ended, group, jobs: [job] });
    }
  }
  return [...rows.values()].map(row => (row.group ? { ...row, jobs: byNumber(row.jobs) } : row));
}

/**
 * The order of a list: jobs that hold GPUs, waiting jobs, paused jobs (newest first, jobs of an array together by
 * index), then finished jobs, latest first.
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
  // Jobs of an array stay together, although they were submitted one after the other.
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

/** Whether the query occurs in the job's name, owner, project, state or id. */
export function matches(job: JobView, query: string): boolean {
  if (!query) {
    return true;
  }
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const text = [job.name, job.user, job.project, job.state, job.id].join('\n').toLowerCase();
  return words.every(word => text.includes(word));
}
