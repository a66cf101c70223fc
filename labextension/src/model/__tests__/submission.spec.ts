import { describe, expect, it } from 'vitest';
import { SENT, Server } from '../../__tests__/server';
import { CellSubmission, lineOf, withLine } from '../cellsubmission';
import { JobSubmission } from '../submission';
import { UNREACHABLE } from '../transport';

function begin(run = 'train.py'): [JobSubmission, Server] {
  const server = new Server();
  return [new JobSubmission(server, 'digits', run), server];
}

describe('a submission', () => {
  it('sends the options that are set, without removed ones', async () => {
    const [submission, server] = begin();
    submission.set('gpus', '2');
    submission.set('workers', '4');
    submission.set('workers', ' ');
    expect(await submission.send()).toEqual(SENT);
    expect(server.forms).toEqual([{ folder: 'digits', run: 'train.py', options: { gpus: '2' } }]);
  });

  it('keeps an error until its field changes', async () => {
    const [submission, server] = begin();
    server.refuses = [["'many' is not an amount.", 'gpus']];
    submission.set('gpus', 'many');
    expect(await submission.send()).toBeNull();
    expect(submission.state.refusal).toEqual({
      field: 'gpus',
      sentence: "'many' is not an amount."
    });
    submission.set('workers', '2');
    expect(submission.state.refusal).not.toBeNull();
    submission.set('gpus', '2');
    expect(submission.state.refusal).toBeNull();
  });

  it('keeps an error without a field until any field changes', async () => {
    const [submission, server] = begin();
    server.refuses = [['Not now.', null]];
    await submission.send();
    submission.setRun('other.py');
    expect(submission.state.refusal).toBeNull();
  });

  it('is sent only once', async () => {
    const [submission, server] = begin();
    let answer = () => {};
    server.before = new Promise(resolve => (answer = resolve));
    const first = submission.send();
    expect(submission.state.sending).toBe(true);
    expect(await submission.send()).toBeNull();
    answer();
    expect(await first).toEqual(SENT);
    expect(server.forms).toHaveLength(1);
    expect(submission.state.sending).toBe(false);
  });

  it('sends parameters only with a notebook', async () => {
    const [submission, server] = begin("'my study.ipynb'");
    expect(submission.takes('notebook_parameters')).toBe(true);
    submission.set('notebook_parameters', 'lr=1');
    await submission.send();
    submission.setRun('train.py');
    expect(submission.takes('notebook_parameters')).toBe(false);
    await submission.send();
    expect(server.forms.map(form => form.options)).toEqual([{ notebook_parameters: 'lr=1' }, {}]);
  });

  it('finds the files to send, and again when the choice changes', async () => {
    const [submission, server] = begin();
    await submission.look();
    expect(submission.state.files).toEqual({ files: 2, size: 62 });
    submission.set('in', '*.py');
    await expect.poll(() => submission.state.files).toEqual({ files: 1, size: 62 });
    submission.set('no_files', 'true');
    expect(submission.state.files).toEqual({ files: 0, size: 0 });
    expect(server.looked).toEqual(['files?folder=digits', 'files?folder=digits&in=*.py']);
  });

  it('runs a dry run while the user types, and shows its error instead of its result', async () => {
    const [submission, server] = begin();
    submission.set('gpus', '2');
    await submission.tryOut();
    expect(submission.state.dryRun).toEqual(server.dryRun);
    expect(server.tried).toEqual([{ folder: 'digits', run: 'train.py', options: { gpus: '2' } }]);
    server.refuses = [['64 GPUs: this pool has 6.', 'gpus']];
    await submission.tryOut();
    expect(submission.state.dryRun).toEqual({ field: 'gpus', sentence: '64 GPUs: this pool has 6.' });
    expect(submission.state.refusal).toBeNull();
    expect(server.forms).toEqual([]);
  });

  it('shows the result for the latest form', async () => {
    const [submission, server] = begin();
    const first = submission.tryOut();
    submission.set('gpus', '4');
    server.dryRun = { ...server.dryRun, starts: false, reason: 'Waits.' };
    await Promise.all([submission.tryOut(), first]);
    expect(submission.state.dryRun).toEqual(server.dryRun);
  });

  it('reports that the server does not answer', async () => {
    const [submission, server] = begin();
    server.down = true;
    expect(await submission.send()).toBeNull();
    expect(submission.state.refusal).toEqual({ field: null, sentence: UNREACHABLE });
  });
});

describe('the magic line of a cell', () => {
  it('is made from the options and shown', async () => {
    const server = new Server();
    const submission = await CellSubmission.of(server, 'fit()');
    submission.set('gpus', '2');
    await expect.poll(() => submission.state.line).toBe('%%runai_train --gpus 2');
    expect(await submission.send()).toBe('%%runai_train --gpus 2');
    expect(submission.takes('outputs')).toBe(true);
    expect(submission.takes('notebook_parameters')).toBe(false);
  });

  it('starts with the options of the existing line', async () => {
    const submission = await CellSubmission.of(new Server(), '\n%%runai_train --gpus 4\nfit()');
    expect(submission.state.values).toEqual({ gpus: '4' });
  });

  it('stays the last valid one while an error is shown at its field', async () => {
    const server = new Server();
    const submission = await CellSubmission.of(server, 'fit()');
    await submission.look();
    server.refuses = [
      ["'-1' is not an amount.", 'gpus'],
      ["'-1' is not an amount.", 'gpus']
    ];
    submission.set('gpus', '-1');
    expect(await submission.send()).toBeNull();
    expect(submission.state.line).toBe('%%runai_train');
    expect(submission.state.refusal).toEqual({ field: 'gpus', sentence: "'-1' is not an amount." });
  });

  it('runs a dry run with the options of the cell', async () => {
    const server = new Server();
    const submission = await CellSubmission.of(server, '%%runai_train --gpus 4\nfit()');
    await submission.tryOut();
    expect(server.tried).toEqual([{ options: { gpus: '4' } }]);
  });

  it('replaces the existing line', () => {
    expect(withLine('fit()', '%%runai_train')).toBe('%%runai_train\nfit()');
    expect(withLine('\n%%runai_train --gpus 4\nfit()', '%%runai_train')).toBe('%%runai_train\nfit()');
    expect(lineOf('%%runai_trainer\nfit()')).toBe('');
  });
});
