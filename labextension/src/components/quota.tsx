/** A project's GPUs: in use, guaranteed, and how many more could start now. */
import type { ReactElement } from 'react';
import type { ProjectView } from '../model/api';
import { amount, gpus } from '../model/format';
import type { Trans } from '../trans';
import { useTrans } from './hooks';

/** The maximum number of GPUs drawn as segments; above it, the bar is continuous. */
const MOST_SEGMENTS = 20;

export interface QuotaBarProps {
  /** GPUs in use. */
  held: number;
  /** The guarantee; null: unlimited. */
  guaranteed: number | null;
  /** The length of the bar, in GPUs. */
  size: number;
  label: string;
}

/** One segment per GPU, a line at the guarantee, and a lighter colour beyond it. */
export function QuotaBar({ held, guaranteed, size, label }: QuotaBarProps): ReactElement {
  const due = guaranteed ?? Infinity;
  const whole = Math.max(1, Math.ceil(size));
  const within = Math.min(held, due);
  return (
    <div className="runai-Quota" role="img" aria-label={label} title={label}>
      {whole <= MOST_SEGMENTS ? (
        Array.from({ length: whole }, (_, index) => (
          <span className="runai-Quota-gpu" key={index}>
            <Fill from={index} to={index + 1} end={within} kind="within" />
            <Fill from={index} to={index + 1} start={within} end={held} kind="over" />
          </span>
        ))
      ) : (
        <span className="runai-Quota-gpu">
          <Fill from={0} to={whole} end={within} kind="within" />
          <Fill from={0} to={whole} start={within} end={held} kind="over" />
        </span>
      )}
      {guaranteed !== null && guaranteed > 0 && guaranteed <= whole && (
        <span className="runai-Quota-line" style={{ left: `${(100 * guaranteed) / whole}%` }} />
      )}
    </div>
  );
}

interface FillProps {
  from: number;
  to: number;
  start?: number;
  end: number;
  kind: 'within' | 'over';
}

/** The fraction of the segment `from … to` that lies between `start` and `end`. */
function Fill({ from, to, start = 0, end, kind }: FillProps): ReactElement | null {
  const left = Math.max(from, start);
  const right = Math.min(to, end);
  if (right <= left) {
    return null;
  }
  const part = (value: number) => `${(100 * value) / (to - from)}%`;
  return (
    <span
      className="runai-Quota-fill"
      data-kind={kind}
      style={{ left: part(left - from), width: part(right - left) }}
    />
  );
}

/** The length of a project's bar in GPUs: in use plus what could start now, and at least its guarantee. */
export function barSize(project: ProjectView): number {
  return Math.max(project.guaranteed_in_all ?? 0, project.allocated + project.could_start, 1);
}

export function quotaWords(project: ProjectView, trans: Trans): string {
  const held = amount(project.allocated);
  if (project.guaranteed_in_all === null) {
    return trans.__('%1 held', held);
  }
  return project.guaranteed_in_all === 0
    ? trans.__('%1 allocated, none guaranteed', held)
    : trans.__('%1 of %2 guaranteed', held, amount(project.guaranteed_in_all));
}

/** What users need before they submit: which GPUs may be reclaimed, and how many more could start now. */
export function outlook(project: ProjectView, trans: Trans): string {
  const sentences: string[] = [];
  if (project.over_quota > 0) {
    sentences.push(trans.__('%1 over quota can be reclaimed.', amount(project.over_quota)));
  }
  sentences.push(
    project.could_start > 0
      ? trans.__('Up to %1 more can start now.', gpus(project.could_start, trans))
      : trans.__('A new job would wait.')
  );
  return sentences.join(' ');
}

/** The CPUs and memory that its jobs use, if the project has a guarantee or limit of them; otherwise nothing. */
export function besideWords(project: ProjectView, trans: Trans): string {
  const words = (name: string, held: number, guaranteed: number | null, limit: number | null) =>
    [
      guaranteed === null
        ? trans.__('%1: %2 allocated', name, amount(held))
        : trans.__('%1: %2 of %3 guaranteed', name, amount(held), amount(guaranteed)),
      limit === null ? '' : trans.__('at most %1', amount(limit))
    ]
      .filter(Boolean)
      .join(', ');
  const { guaranteed_cpus, limit_cpus, guaranteed_memory_gib, limit_memory_gib } = project;
  const sentences: string[] = [];
  if (guaranteed_cpus !== null || limit_cpus !== null) {
    sentences.push(words(trans.__('CPUs'), project.allocated_cpus, guaranteed_cpus, limit_cpus));
  }
  if (guaranteed_memory_gib !== null || limit_memory_gib !== null) {
    sentences.push(
      words(trans.__('GiB of memory'), project.allocated_memory_gib, guaranteed_memory_gib, limit_memory_gib)
    );
  }
  return sentences.map(sentence => `${sentence}.`).join(' ');
}

export function ProjectQuota({ project }: { project: ProjectView }): ReactElement {
  const trans = useTrans();
  const words = quotaWords(project, trans);
  const beside = besideWords(project, trans);
  return (
    <li className="runai-Project" data-still="">
      <div className="runai-Line">
        <span className="runai-Name">{project.name}</span>
        <span className="runai-Aside">{words}</span>
      </div>
      <QuotaBar
        held={project.allocated}
        guaranteed={project.guaranteed_in_all}
        size={barSize(project)}
        label={`${project.name}: ${words}`}
      />
      <div className="runai-Hint">{outlook(project, trans)}</div>
      {beside && <div className="runai-Hint">{beside}</div>}
    </li>
  );
}
