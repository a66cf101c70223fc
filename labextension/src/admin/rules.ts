/** The rules that administrators set: each with its place, its texts in words and in a field, and how a text is read. */
import type { PolicyEntry, PolicyView, PoolFile, RuleView } from '../model/api';
import { amount, duration } from '../model/format';
import type { Trans } from '../trans';

export type Kind =
  'amount' | 'amounts' | 'count' | 'duration' | 'names' | 'flag' | 'flags' | 'idle' | 'order' | 'reclaim' | 'surplus';

export interface Rule {
  /** The place in the pool file, or in a policy: `['settings', 'lending']`, `['maxima', 'gpus']`. */
  readonly path: readonly [string, ...string[]];
  readonly label: string;
  readonly kind: Kind;
  /** What an empty field means; absent: it may not be empty. */
  readonly empty?: string;
  /** What 0 means, where it is no mere amount. */
  readonly zero?: string;
  readonly hint?: string;
}

/** A text that is no value of its rule. */
export class InvalidRule extends Error {}

const UNITS: Readonly<Record<string, number>> = { s: 1, min: 60, m: 60, h: 3600, d: 86_400 };

/** What the field of a rule shows: `2 h`, `0.5`, `A100, H100`, `yes`. */
export function textOf(value: unknown): string {
  if (value === null || value === undefined) {
    return '';
  }
  if (typeof value === 'boolean') {
    return value ? 'yes' : 'no';
  }
  return Array.isArray(value) ? value.map(textOf).join(', ') : String(value);
}

export function fieldText(rule: Rule, value: unknown): string {
  if (rule.kind !== 'duration' || typeof value !== 'number') {
    return textOf(value);
  }
  const unit = ['d', 'h', 'min'].find(one => value > 0 && value % UNITS[one]! === 0) ?? 's';
  return `${value / UNITS[unit]!} ${unit}`;
}

/** The value that a text means; null: none. Throws `InvalidRule` with a sentence that says what to write. */
export function valueOf(rule: Rule, typed: string, trans: Trans): unknown {
  const text = typed.trim();
  if (text === '') {
    if (rule.empty === undefined) {
      throw new InvalidRule(trans.__('%1: this may not be empty.', rule.label));
    }
    return null;
  }
  switch (rule.kind) {
    case 'amount':
    case 'count': {
      const value = Number(text);
      if (!(value >= 0 && Number.isFinite(value)) || (rule.kind === 'count' && !Number.isInteger(value))) {
        const example =
          rule.kind === 'count' ? trans.__('a whole number, such as 2') : trans.__('a number, such as 0.5');
        throw new InvalidRule(trans.__('%1: write %2.', rule.label, example));
      }
      return value;
    }
    case 'duration': {
      const [, number, unit] = /^(\d+(?:\.\d+)?)\s*(s|min|m|h|d)?$/.exec(text) ?? [];
      if (number === undefined) {
        throw new InvalidRule(trans.__('%1: write a duration, such as 90 s, 30 min, 2 h or 1 d.', rule.label));
      }
      return Number(number) * UNITS[unit ?? 's']!;
    }
    case 'amounts': {
      const values = text
        .split(/[\s,;]+/)
        .filter(Boolean)
        .map(Number);
      if (!values.every(value => value > 0 && Number.isFinite(value))) {
        throw new InvalidRule(trans.__('%1: write numbers above 0, such as 8, 64.', rule.label));
      }
      return values;
    }
    case 'names':
      return text.split(/[\s,]+/).filter(Boolean);
    case 'flag':
      return text === 'yes';
    case 'flags':
      return [text === 'yes'];
    default:
      return text;
  }
}

/** The values of some kinds, with what they are called. */
export const CHOICES: Partial<Record<Kind, readonly (readonly [string, string])[]>> = {
  flag: [
    ['yes', 'yes'],
    ['no', 'no']
  ],
  flags: [
    ['yes', 'only yes'],
    ['no', 'only no']
  ],
  idle: [
    ['stop', 'stop the server'],
    ['take_back', 'take the GPUs back, leave the server']
  ],
  order: [
    ['arrival', 'oldest first'],
    ['served', 'least served first']
  ],
  reclaim: [
    ['fair_share', 'the fair share'],
    ['guarantee', 'the guarantee']
  ],
  surplus: [
    ['weight', 'by weight'],
    ['served', 'least served jobs first']
  ]
};

/** A value in words: `2 h`, `4`, `A100 or H100`; null in those of its field. */
export function inWords(rule: Rule, value: unknown, trans: Trans): string {
  if (value === null || value === undefined) {
    return rule.empty ?? trans.__('none');
  }
  if (value === 0 && rule.zero !== undefined) {
    return rule.zero;
  }
  const chosen = CHOICES[rule.kind]?.find(([name]) => name === value);
  if (chosen) {
    return trans.__(chosen[1]);
  }
  if (Array.isArray(value)) {
    return value.map(textOf).join(rule.kind === 'amounts' ? ', ' : trans.__(' or '));
  }
  if (typeof value === 'number') {
    return rule.kind === 'duration' ? duration(value, trans) : amount(value);
  }
  return textOf(value);
}

/** The rules of a policy, in the order of their fields. */
export function policyRules(trans: Trans): Rule[] {
  const named: [string, string, Kind][] = [
    ['gpus', trans.__('GPUs per worker'), 'amount'],
    ['total_gpus', trans.__('GPUs of a job'), 'amount'],
    ['workers', trans.__('Workers'), 'count'],
    ['cpus', trans.__('CPUs per worker'), 'amount'],
    ['memory_gib', trans.__('Memory per worker (GiB)'), 'amount'],
    ['priority', trans.__('Priority'), 'count'],
    ['preemptible', trans.__('Preemptible'), 'flag'],
    ['min_runtime', trans.__('Protected from preemption for'), 'duration'],
    ['max_runtime', trans.__('Run time'), 'duration'],
    ['idle_timeout', trans.__('Time with idle GPUs'), 'duration'],
    ['grace', trans.__('Grace period'), 'duration'],
    ['retries', trans.__('Retries'), 'count'],
    ['gpu_types', trans.__('GPU types'), 'names'],
    ['node_pools', trans.__('Node pools'), 'names']
  ];
  const empty = trans.__('no rule');
  return named.flatMap(([name, label, kind]): Rule[] => {
    const chosen = kind === 'flag' || kind === 'names';
    const rules: Rule[] = [];
    if (name !== 'total_gpus' && name !== 'workers') {
      rules.push({ path: ['defaults', name], label: trans.__('%1: default', label), kind, empty });
    }
    rules.push(
      chosen
        ? {
            path: ['allowed', name],
            label: trans.__('%1: allowed', label),
            kind: kind === 'flag' ? 'flags' : kind,
            empty
          }
        : { path: ['maxima', name], label: trans.__('%1: at most', label), kind, empty }
    );
    return rules;
  });
}

export function read(from: PoolFile | PolicyEntry, path: readonly string[]): unknown {
  return path.reduce<unknown>((value, key) => (value as Record<string, unknown>)[key], from);
}

/** A copy in which the values at these places are others. */
export function changed<T>(from: T, values: readonly (readonly [readonly string[], unknown])[]): T {
  const copy = structuredClone(from);
  for (const [path, value] of values) {
    const last = path[path.length - 1]!;
    (read(copy as PoolFile, path.slice(0, -1)) as Record<string, unknown>)[last] = value;
  }
  return copy;
}

export function ruleAt(view: PolicyView, { path: [part, name] }: Rule): RuleView | undefined {
  return view.rules.find(one => one.part === part && one.name === name);
}
