import { describe, expect, it } from 'vitest';
import type { Change } from '../../model/api';
import { plain } from '../../trans';
import { changeWords } from '../preview';
import { changed, fieldText, valueOf, type Kind, type Rule } from '../rules';

const rule = (kind: Kind, empty?: string): Rule => ({
  path: ['maxima', 'gpus'],
  label: 'GPUs',
  kind,
  ...(empty === undefined ? {} : { empty })
});

describe('the text of a rule', () => {
  it.each<[Kind, string, unknown]>([
    ['amount', '0.5', 0.5],
    ['count', '3', 3],
    ['amounts', '8, 64.5', [8, 64.5]],
    ['duration', '90 s', 90],
    ['duration', '30 min', 1800],
    ['duration', '2 h', 7200],
    ['duration', '1 d', 86_400],
    ['duration', '0 s', 0],
    ['names', 'A100, H100', ['A100', 'H100']],
    ['flag', 'yes', true],
    ['flags', 'no', [false]],
    ['order', 'served', 'served']
  ])('as %s is %j for a value, and back', (kind, text, value) => {
    expect(valueOf(rule(kind), text, plain)).toEqual(value);
    expect(fieldText(rule(kind), value)).toBe(text);
  });

  it.each<[Kind, string, string]>([
    ['amount', '-1', 'GPUs: write a number, such as 0.5.'],
    ['amount', 'many', 'GPUs: write a number, such as 0.5.'],
    ['count', '1.5', 'GPUs: write a whole number, such as 2.'],
    ['amounts', '8, none', 'GPUs: write numbers above 0, such as 8, 64.'],
    ['amounts', '0, 8', 'GPUs: write numbers above 0, such as 8, 64.'],
    ['duration', '2 weeks', 'GPUs: write a duration, such as 90 s, 30 min, 2 h or 1 d.'],
    ['duration', ' ', 'GPUs: this may not be empty.']
  ])('as %s is refused where it is %j', (kind, text, sentence) => {
    expect(() => valueOf(rule(kind), text, plain)).toThrow(sentence);
  });

  it('may be empty where that has a meaning', () => {
    expect(valueOf(rule('duration', 'no rule'), '', plain)).toBeNull();
    expect(fieldText(rule('duration', 'no rule'), null)).toBe('');
  });
});

it('changes a copy', () => {
  const before = { maxima: { gpus: 1, cpus: 2 } };
  expect(changed(before, [[['maxima', 'gpus'], 4]])).toEqual({ maxima: { gpus: 4, cpus: 2 } });
  expect(before.maxima.gpus).toBe(1);
});

describe('a change of a rule', () => {
  it.each<[Change['kind'], string, string, unknown, unknown, string]>([
    ['settings', 'settings', 'session_idle_timeout', 0, 7200, 'Idle notebook servers: Warn after never → 2\u00a0h'],
    [
      'settings',
      'settings',
      'order',
      'arrival',
      'served',
      'Order of jobs: Order in a project oldest first → least served first'
    ],
    [
      'settings',
      'settings',
      'service_levels',
      [8, 64],
      [8],
      'Order of jobs: Service levels end at (GPU-hours) 8, 64 → 8'
    ],
    [
      'settings',
      'settings',
      'surplus',
      'weight',
      'served',
      'GPUs beyond guarantees: Divide by weight → least served jobs first'
    ],
    ['settings', 'settings', 'lending', false, true, 'Idle build GPUs: Lend to preemptible jobs no → yes'],
    ['pool', 'pool', 'keep_days', 90, null, 'Finished jobs: Delete after (days) 90 → never'],
    ['pool', 'pool', 'policy.maxima.gpus', null, 8, 'All projects: GPUs per worker: at most no rule → 8'],
    [
      'pool',
      'pool',
      'build_overcommit',
      false,
      true,
      'GPUs for notebooks: Quotas may add up to more GPUs than there are no → yes'
    ],
    ['project', 'vision', 'policy.defaults.max_runtime', null, 3600, 'vision: Run time: default no rule → 1\u00a0h'],
    ['project', 'vision', 'limit', null, 3, 'vision: limit none → 3']
  ])('of %s is called as the page calls it', (kind, name, key, before, after, words) => {
    const change: Change = { action: 'change', kind, name, before: { [key]: before }, after: { [key]: after } };
    expect(changeWords(change, plain)).toEqual([words]);
  });
});
