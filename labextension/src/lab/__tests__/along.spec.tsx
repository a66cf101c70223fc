/** What goes along with a cell, in the dialog: asked of the notebook's kernel, while it is idle. */
import type { ISessionContext } from '@jupyterlab/apputils';
import type { Kernel } from '@jupyterlab/services';
import { Signal } from '@lumino/signaling';
import { act, cleanup, configure, fireEvent, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Scheduler } from '../../__tests__/scheduler';
import { Server } from '../../__tests__/server';
import type { Along, AlongUnknown } from '../../model/along';
import { CellSubmission } from '../../model/cellsubmission';
import { PoolModel } from '../../model/pool';
import { plain } from '../../trans';
import { CellKernel } from '../cellkernel';
import { submitDialog } from '../submit';

configure({ defaultHidden: true });

interface Asked {
  content: Record<string, unknown>;
  /** Answers the request. */
  reply(content: Record<string, unknown> | null): void;
}

/** The session of a notebook whose kernel answers when it is told to. */
class Notebook {
  readonly asked: Asked[] = [];
  status: Kernel.Status = 'idle';
  private readonly _self = this as unknown as ISessionContext;
  readonly statusChanged = new Signal<ISessionContext, Kernel.Status>(this._self);
  readonly kernelChanged = new Signal<ISessionContext, never>(this._self);
  readonly session = {
    kernel: {
      ...{ notebook: this },
      get status(): Kernel.Status {
        return this.notebook.status;
      },
      requestExecute: (content: Record<string, unknown>) => ({
        done: new Promise((resolve, reject) => {
          this.asked.push({
            content,
            reply: answer => (answer ? resolve({ content: answer }) : reject(new Error('Canceled')))
          });
        })
      })
    }
  };

  is(status: Kernel.Status): void {
    this.status = status;
    this.statusChanged.emit(status);
  }
}

const DF = { name: 'df', type: 'DataFrame', size: { bytes: 1.2 * 2 ** 30, accuracy: 'about' as const } };
const LR = { name: 'lr', type: 'float', size: { bytes: 10, accuracy: 'exact' as const } };
const FOUND: Along = { variables: [DF, LR], files: 3, bytes: 12288, refused: [], saves: true };

const said = (answer: Along | AlongUnknown) => ({
  status: 'ok',
  user_expressions: { along: { status: 'ok', data: { 'application/json': answer } } }
});

let server: Server;
let model: PoolModel;
let notebook: Notebook;

async function open(source = 'df.sum() * lr'): Promise<HTMLElement> {
  const kernel = new CellKernel(notebook as unknown as ISessionContext);
  const submission = await CellSubmission.of(server, source, kernel);
  await act(async () => {
    void submitDialog(submission, model, 'Train this cell on the GPU pool', plain);
  });
  await screen.findByLabelText('GPUs');
  return screen.getByRole('dialog');
}

const along = (dialog: HTMLElement) => dialog.querySelector('.runai-Along')!;
const answer = (at: number, content: Record<string, unknown> | null) =>
  act(async () => notebook.asked[at]!.reply(content));

beforeEach(async () => {
  server = new Server();
  notebook = new Notebook();
  model = new PoolModel(new Scheduler(), { firstDelay: 1, longestDelay: 1, gather: 1, figures: 1 });
  model.start();
  await expect.poll(() => model.state.me).not.toBeNull();
});

afterEach(async () => {
  if (document.querySelector('.jp-Dialog')) {
    await act(async () => {
      fireEvent.click(screen.getByRole('button', { name: 'Cancel' }));
    });
  }
  model.dispose();
  cleanup();
});

describe('what goes along with a cell', () => {
  it('is asked without a trace in the notebook, and said in a sentence', async () => {
    const dialog = await open('%%runai_train --gpus 2\ndf["é"] * lr');
    await waitFor(() => expect(notebook.asked).toHaveLength(1));
    expect(notebook.asked[0]!.content).toMatchObject({
      code: '',
      silent: true,
      store_history: false,
      stop_on_error: false
    });
    const { along: expression } = notebook.asked[0]!.content.user_expressions as { along: string };
    expect(expression).toContain(String.raw`goes_along("--gpus 2", "df[\"é\"] * lr")`);
    await answer(0, said(FOUND));
    expect(along(dialog).textContent).toBe(
      'Takes along df (DataFrame, about 1.2 GiB), lr (float, 10 B) and 3 files of this folder (12 KiB).'
    );
  });

  it('waits until the kernel is idle, and is asked again where a cell before it failed', async () => {
    notebook.status = 'busy';
    const dialog = await open();
    await waitFor(() => expect(along(dialog).textContent).toBe('What goes along is known once the kernel is idle.'));
    expect(notebook.asked).toEqual([]);
    act(() => notebook.is('idle'));
    await waitFor(() => expect(notebook.asked).toHaveLength(1));
    await answer(0, { status: 'aborted' });
    await waitFor(() => expect(notebook.asked).toHaveLength(2));
    notebook.status = 'restarting';
    await answer(1, null);
    expect(notebook.asked).toHaveLength(2);
    act(() => notebook.is('idle'));
    await waitFor(() => expect(notebook.asked).toHaveLength(3));
    await answer(2, said({ ...FOUND, variables: [], files: 0 }));
    expect(along(dialog).textContent).toBe('Takes nothing along.');
  });

  it('is asked once at a time, and at last for the options as they are', async () => {
    await open();
    await waitFor(() => expect(notebook.asked).toHaveLength(1));
    for (const gpus of ['1', '2', '4']) {
      await act(async () => {
        fireEvent.change(screen.getByLabelText('GPUs'), { target: { value: gpus } });
      });
    }
    await screen.findByText('%%runai_train --gpus 4');
    expect(notebook.asked).toHaveLength(1);
    await answer(0, said(FOUND));
    await waitFor(() => expect(notebook.asked).toHaveLength(2));
    expect(JSON.stringify(notebook.asked[1]!.content)).toContain('--gpus 4');
    await answer(1, said(FOUND));
    expect(notebook.asked).toHaveLength(2);
  });

  it('lists all variables where the sentence leaves some out, and each that cannot go along', async () => {
    const dialog = await open();
    await waitFor(() => expect(notebook.asked).toHaveLength(1));
    const many = ['b', 'c', 'd', 'e'].map(name => ({ ...LR, name }));
    const refused = ["`conn` can't be sent.", "`lock` can't be sent."];
    await answer(0, said({ variables: [DF, LR, ...many], files: 0, bytes: 0, refused, saves: true }));
    expect(along(dialog).textContent).toContain('c (float, 10 B) and 2 more.');
    expect(screen.getByText('All 6 variables').closest('details')!.open).toBe(false);
    expect(along(dialog).querySelectorAll('tbody tr')).toHaveLength(6);
    expect([...along(dialog).querySelectorAll('.runai-Field-problem')].map(node => node.textContent)).toEqual(refused);
  });

  it('tells beside the forecast that a cell over quota saves nothing', async () => {
    server.dryRun = { ...server.dryRun, over_quota: true };
    await open();
    await waitFor(() => expect(notebook.asked).toHaveLength(1));
    await screen.findByText(/^Starts now\. It is over quota: .* and loses what it has not saved\.$/);
    await answer(0, said({ ...FOUND, saves: false }));
    await screen.findByText(/^Starts now\. It is over quota, and this cell saves nothing: /);
  });

  it('says why the kernel cannot say it', async () => {
    const dialog = await open();
    await waitFor(() => expect(notebook.asked).toHaveLength(1));
    const evalue = "No module named 'jupyter_ext'";
    await answer(0, { status: 'ok', user_expressions: { along: { status: 'error', evalue } } });
    expect(along(dialog).textContent).toBe(`The kernel cannot say what goes along: ${evalue}.`);
  });

  it('is not shown for a kernel of another language', async () => {
    const dialog = await open();
    await waitFor(() => expect(notebook.asked).toHaveLength(1));
    await answer(0, { status: 'ok', user_expressions: {} });
    expect(along(dialog).textContent).toBe('');
  });

  it('asks nothing after the dialog is closed', async () => {
    notebook.status = 'busy';
    await open();
    await waitFor(() => expect(screen.getByText('What goes along is known once the kernel is idle.')).toBeTruthy());
    await act(async () => {
      fireEvent.click(screen.getByRole('button', { name: 'Cancel' }));
    });
    act(() => notebook.is('idle'));
    await act(async () => {});
    expect(notebook.asked).toEqual([]);
  });
});
