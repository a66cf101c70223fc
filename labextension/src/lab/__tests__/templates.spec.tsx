/** The row of templates in the dialog. */
import { act, cleanup, configure, fireEvent, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Scheduler } from '../../__tests__/scheduler';
import { Server } from '../../__tests__/server';
import { PoolModel } from '../../model/pool';
import { JobSubmission } from '../../model/submission';
import type { Template } from '../../model/templates';
import { plain } from '../../trans';
import { submitDialog } from '../submit';

configure({ defaultHidden: true });

const template = (name: string, options: Record<string, string>, more: Partial<Template> = {}): Template => ({
  ...{ name, options, own: true, run: '', left_out: [], problem: '' },
  ...more
});

let server: Server;
let model: PoolModel;

async function open(run = 'train.py'): Promise<HTMLElement> {
  await act(async () => {
    void submitDialog(new JobSubmission(server, 'digits', run), model, 'Train on the GPU pool', plain);
  });
  await screen.findByLabelText('Run');
  return screen.getByRole('dialog');
}

const field = (name: string) => screen.getByLabelText<HTMLInputElement>(name);
const write = (name: string, value: string) => fireEvent.change(field(name), { target: { value } });
const press = (name: string) => act(async () => void fireEvent.click(screen.getByRole('button', { name })));

beforeEach(async () => {
  server = new Server();
  model = new PoolModel(new Scheduler(), { firstDelay: 1, longestDelay: 1, gather: 1, figures: 1 });
  model.start();
  await expect.poll(() => model.state.me).not.toBeNull();
});

afterEach(async () => {
  if (document.querySelector('.jp-Dialog')) {
    await press('Cancel');
  }
  model.dispose();
  cleanup();
});

describe('templates', () => {
  it('fill in the fields; what the user writes afterwards wins', async () => {
    server.templates = [
      template('half', { gpus: '0.5', workers: '2' }),
      template('large', { gpus: '8' }, { own: false })
    ];
    await open();
    write('Priority', '70');
    await screen.findByLabelText('Template');
    expect([...field('Template').querySelectorAll('option')].map(option => option.textContent)).toEqual([
      'None',
      'half',
      'large (from the administrators)'
    ]);
    write('Template', 'half');
    write('Workers', '3');
    write('Template', 'large');
    expect([field('GPUs').value, field('Workers').value, field('Priority').value]).toEqual(['8', '3', '70']);
    write('Template', '');
    await press('Send');
    expect(server.forms).toEqual([{ folder: 'digits', run: 'train.py', options: { workers: '3', priority: '70' } }]);
  });

  it('say what to run where nothing is said, and name their job', async () => {
    server.templates = [template('nightly', { gpus: '1' }, { run: 'python train.py' })];
    await open('');
    await screen.findByLabelText('Template');
    write('Template', 'nightly');
    expect(field('Run').value).toBe('python train.py');
    expect(field('Name').value).toBe('nightly');
    await press('Cancel');
    await open('other.py');
    await screen.findByLabelText('Template');
    write('Template', 'nightly');
    expect([field('Run').value, field('Name').value, field('GPUs').value]).toEqual(['other.py', '', '1']);
  });

  it('say what is wrong with them', async () => {
    server.templates = [
      template('wrong', {}, { problem: 'gpu: there is no such key.' }),
      template('gang', { gpus: '1' }, { left_out: ['groups'] })
    ];
    const dialog = await open();
    await screen.findByLabelText('Template');
    write('Template', 'wrong');
    expect(screen.getByRole('alert').textContent).toBe('gpu: there is no such key.');
    write('Template', 'gang');
    expect(screen.queryByRole('alert')).toBeNull();
    expect(dialog.textContent).toContain('This form has no field for groups; use --template gang on a line.');
  });

  it('are kept by keyboard, and the form stays open', async () => {
    await open();
    expect(screen.queryByLabelText('Template')).toBeNull();
    write('GPUs', '4');
    await press('Save as template…');
    expect(document.activeElement).toBe(field('Template name'));
    fireEvent.keyDown(field('Template name'), { key: 'Escape' });
    expect(document.activeElement).toBe(screen.getByRole('button', { name: 'Save as template…' }));
    await press('Save as template…');
    server.refuses = [["'a b' is not a valid template name.", 'template']];
    write('Template name', 'a b');
    await act(async () => void fireEvent.keyDown(field('Template name'), { key: 'Enter' }));
    expect((await screen.findByRole('alert')).textContent).toBe("'a b' is not a valid template name.");
    write('Template name', 'four');
    await act(async () => void fireEvent.keyDown(field('Template name'), { key: 'Enter' }));
    await waitFor(() => expect(field('Template').value).toBe('four'));
    expect(document.activeElement).toBe(field('Template'));
    expect(server.templates).toEqual([template('four', { gpus: '4' })]);
    expect(server.forms).toEqual([]);
    await press('Save as template…');
    expect(screen.getByRole('button', { name: 'Replace' })).toBeTruthy();
  });
});
