/** A project while it is edited: the texts of its fields, their values, and the resulting guarantees. */
import type { PoolView, ProjectEntry, ProjectView, QueueOrder } from '../model/api';
import { amount, gpus } from '../model/format';
import type { Trans } from '../trans';

export interface Fields {
  name: string;
  parent: string;
  guaranteed: string;
  limit: string;
  weight: string;
  priority: string;
  order: string;
  members: string;
  groups: string;
}

export type Field = keyof Fields;

/** The texts of a project's fields, or of a new project's if it is null. */
export function fieldsOf(project: ProjectView | null): Fields {
  const text = (value: number | null | undefined) => (value === null || value === undefined ? '' : String(value));
  return {
    name: project?.name ?? '',
    parent: project?.parent ?? '',
    guaranteed: project ? text(project.guaranteed) : '0',
    limit: text(project?.limit),
    weight: text(project?.weight),
    priority: String(project?.priority ?? 0),
    order: project?.order ?? '',
    members: (project?.members ?? []).join(', '),
    groups: (project?.groups ?? []).join(', ')
  };
}

/** A field whose text is not a valid value. */
export class InvalidField extends Error {
  constructor(
    readonly field: Field,
    sentence: string
  ) {
    super(sentence);
  }
}

/** The project that the fields describe; other keys are copied from `base`. Throws `InvalidField`. */
export function entryOf(fields: Fields, base: ProjectView | null, trans: Trans): ProjectEntry {
  const number = (field: Field, empty: string): number | null => {
    const text = fields[field].trim();
    const value = Number(text);
    if (text !== '' && !(Number.isFinite(value) && value >= 0)) {
      throw new InvalidField(field, trans.__('Write a number such as 4 or 0.5, or leave it empty: %1.', empty));
    }
    return text === '' ? null : value;
  };
  const priority = Number(fields.priority.trim() || '0');
  if (!Number.isInteger(priority)) {
    throw new InvalidField('priority', trans.__('Write a whole number, such as 0 or 10.'));
  }
  return {
    name: fields.name.trim(),
    parent: fields.parent || null,
    guaranteed: number('guaranteed', trans.__('unlimited')),
    limit: number('limit', trans.__('no limit')),
    weight: number('weight', trans.__('same as the guarantee')),
    priority,
    order: (fields.order || null) as QueueOrder | null,
    members: names(fields.members),
    groups: names(fields.groups),
    policy: base?.policy ?? ({} as ProjectEntry['policy']),
    quotas: base?.quotas ?? [],
    guaranteed_cpus: base?.guaranteed_cpus ?? null,
    limit_cpus: base?.limit_cpus ?? null,
    guaranteed_memory_gib: base?.guaranteed_memory_gib ?? null,
    limit_memory_gib: base?.limit_memory_gib ?? null,
    windows: base?.windows ?? []
  };
}

function names(text: string): string[] {
  return [...new Set(text.split(/[\s,]+/).filter(Boolean))];
}

export interface GuaranteeSum {
  words: string;
  /** Whether more is guaranteed than exists. */
  over: boolean;
}

/**
 * The guarantee of this project and of its siblings, and the GPUs that they share; null if the pool is shared in parts,
 * which only the preview can calculate.
 */
export function guaranteeSumOf(
  fields: Fields,
  own: string | null,
  projects: readonly ProjectView[],
  pool: PoolView,
  trans: Trans
): GuaranteeSum | null {
  const parent = projects.find(project => project.name === fields.parent);
  if (projects.some(project => project.parts.length > 0) || parent?.guaranteed === null) {
    return null;
  }
  const beside = projects.filter(project => (project.parent ?? '') === fields.parent && project.name !== own);
  const text = fields.guaranteed.trim();
  const given = text === '' ? Infinity : Number(text);
  const sum = beside.reduce((all, project) => all + (project.guaranteed ?? Infinity), given);
  if (Number.isNaN(sum)) {
    return null;
  }
  const there = parent ? (parent.guaranteed ?? 0) : pool.train.gpus;
  const all = Number.isFinite(sum) ? amount(sum) : trans.__('any number');
  const words = parent
    ? trans.__('%1 of the %2 of %3 guaranteed', all, gpus(there, trans), parent.name)
    : trans.__('%1 of %2 guaranteed', all, gpus(there, trans));
  return { words, over: sum > there };
}

/** A project and its descendants: none of them can be its parent. */
export function subtreeOf(name: string, projects: readonly ProjectView[]): ReadonlySet<string> {
  const found = new Set([name]);
  for (let before = 0; before < found.size;) {
    before = found.size;
    projects.filter(one => one.parent !== null && found.has(one.parent)).forEach(one => found.add(one.name));
  }
  return found;
}
