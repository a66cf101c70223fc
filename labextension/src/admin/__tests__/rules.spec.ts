import { describe, expect, it } from 'vitest';
import { plain } from '../../trans';
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
