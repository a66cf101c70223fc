/** The last submitted forms, in JupyterLab's own database. */
import { StateDB } from '@jupyterlab/statedb';
import { expect, it } from 'vitest';
import { SentForms } from '../sentforms';

const form = (gpus: number) => ({ run: `train.py --epochs ${gpus}`, values: { gpus: `${gpus}` } });

it('remembers the latest form of each file, and drops the oldest', async () => {
  const state = new StateDB();
  const forms = new SentForms(state);
  expect(await forms.of('a/train.py')).toBeNull();
  await forms.keep('a/train.py', form(1));
  for (let file = 0; file < 49; file++) {
    await forms.keep(`${file}.py`, form(2));
  }
  await forms.keep('a/train.py', form(3));
  await forms.keep('another.py', form(4));
  expect(await new SentForms(state).of('a/train.py')).toEqual(form(3));
  expect(await forms.of('0.py')).toBeNull();
  expect(await forms.of('1.py')).toEqual(form(2));
});

it('stores no environment variables, which may hold secrets', async () => {
  const forms = new SentForms(new StateDB());
  await forms.keep('train.py', { run: 'train.py', values: { gpus: '2', env: 'TOKEN=secret' } });
  expect(await forms.of('train.py')).toEqual({ run: 'train.py', values: { gpus: '2' } });
});

it('remembers nothing without a database', async () => {
  const forms = new SentForms(null);
  await forms.keep('train.py', form(1));
  expect(await forms.of('train.py')).toBeNull();
});
