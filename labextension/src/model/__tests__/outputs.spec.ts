import { describe, expect, it } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import { Client } from '../client';
import { followOutputs, OutputWriter, type IOutputs, type Output } from '../outputs';

/** Merges stream texts as JupyterLab's model does: by the name of the latest output only. */
class Outputs implements IOutputs {
  readonly isDisposed = false;
  readonly list: Output[] = [];

  get length(): number {
    return this.list.length;
  }

  add(output: Output): void {
    if (output.output_type === 'stream' && this._last === output.name) {
      const before = this.list.at(-1)!;
      if (before.output_type !== 'stream') {
        throw new Error('there is no text to join this to');
      }
      before.text = String(before.text) + String(output.text);
      return;
    }
    this._last = output.output_type === 'stream' ? output.name : '';
    this.list.push({ ...output });
  }

  set(index: number, output: Output): void {
    this.list[index] = output;
  }

  toJSON(): Output[] {
    return [...this.list];
  }

  fromJSON(outputs: Output[]): void {
    this.list.splice(0, this.length);
    this._last = '';
    outputs.forEach(output => this.add(output));
  }

  private _last: unknown = '';
}

const text = (text: string): Output => ({ output_type: 'stream', name: 'stdout', text });
const html = (html: string, display_id?: string): Output => ({
  output_type: 'display_data',
  data: { 'text/html': html },
  metadata: {},
  ...(display_id ? { transient: { display_id } } : {})
});

function besides(outputs: Outputs): unknown[] {
  return outputs.list.slice(1).map(one => one.text ?? (one.data as Record<string, unknown>)['text/html']);
}

function written(...output: Output[]): Outputs {
  const outputs = new Outputs();
  outputs.add(html('the card'));
  outputs.add(text('what the kernel wrote before it was gone'));
  const writer = new OutputWriter(outputs, 1, '…');
  output.forEach(one => writer.write(one));
  return outputs;
}

describe('the outputs of a cell', () => {
  it('replace what the kernel wrote', () => {
    expect(besides(written(text('a\n'), text('b\n'), html('<b>'), text('c')))).toEqual(['a\nb\n', '<b>', 'c']);
  });

  it('are updated in place', () => {
    const update = { ...html('<i>2</i>', 'x'), output_type: 'update_display_data' };
    const outputs = written(html('<i>1</i>', 'x'), text('after'), update);
    expect(besides(outputs)).toEqual(['<i>2</i>', 'after']);
    expect(outputs.list.every(one => !('transient' in one))).toBe(true);
  });

  it('are cleared, at once or with the next output, and keep the card', () => {
    expect(besides(written(text('old'), { output_type: 'clear_output', wait: false }))).toEqual([]);
    const wait = { output_type: 'clear_output', wait: true };
    expect(besides(written(text('old'), wait))).toEqual(['old']);
    expect(besides(written(text('old'), wait, text('new')))).toEqual(['new']);
  });

  it('are limited in size', () => {
    const outputs = written(...Array.from({ length: 30 }, () => text('x'.repeat(100_000))));
    const [all] = besides(outputs) as string[];
    expect(all!.length).toBeLessThanOrEqual(1_000_010);
    expect(all!.endsWith('…')).toBe(true);
  });
});

describe('what a job displays', () => {
  it('is read over all attempts until the job ends', async () => {
    const scheduler = new Scheduler();
    scheduler.jobs.set('a', aJob('a'));
    const line = (attempt: number, log: number, said: string) => ({
      attempt,
      log,
      display: 0,
      output: text(said)
    });
    scheduler.shown.set('a', [line(1, 5, 'one'), line(2, 5, 'two')]);
    const said: unknown[] = [];
    const whole = await followOutputs(
      new Client(scheduler),
      'a',
      () => ({ attempts: 2, ended: true }),
      output => said.push(output.text),
      new AbortController().signal
    );
    expect(whole).toBe(true);
    expect(said).toEqual(['one', '\n--- attempt 2 ---\n', 'two']);
  });

  it('is not read by others than the owner', async () => {
    const scheduler = new Scheduler();
    scheduler.trouble = [403, { detail: 'The job is another user’s.' }];
    const signal = new AbortController().signal;
    const standing = () => ({ attempts: 1, ended: false });
    const client = new Client(scheduler);
    expect(await followOutputs(client, 'a', standing, () => undefined, signal)).toBe(false);
  });
});
