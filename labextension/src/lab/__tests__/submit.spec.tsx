/** The form in JupyterLab's own dialog. */
import { act, cleanup, configure, fireEvent, screen, waitFor, within } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Scheduler } from '../../__tests__/scheduler';
import { SENT, Server, STARTS } from '../../__tests__/server';
import { OPTIONS } from '../../model/options';
import { PoolModel } from '../../model/pool';
import { CloneSubmission, JobSubmission, type Sent } from '../../model/submission';
import { plain } from '../../trans';
import { submitDialog } from '../submit';

configure({ defaultHidden: true }); // jsdom treats a dialog that JupyterLab shows by CSS as closed

let server: Server;
let model: PoolModel;
let sent: Promise<Sent | null>;

async function open(run = 'train.py'): Promise<HTMLElement> {
  const submission = new JobSubmission(server, 'digits', run);
  await act(async () => {
    sent = submitDialog(submission, model, 'Train on the GPU pool', plain);
  });
  await screen.findByLabelText('Run');
  return screen.getByRole('dialog');
}

const field = (name: string) => screen.getByLabelText<HTMLInputElement>(name);
const write = (name: string, value: string) => fireEvent.change(field(name), { target: { value } });
const press = async (name: string) => {
  await act(async () => {
    fireEvent.click(screen.getByRole('button', { name }));
  });
};

beforeEach(async () => {
  server = new Server();
  const scheduler = new Scheduler();
  scheduler.me = { ...scheduler.me, projects: ['vision', 'speech'] };
  model = new PoolModel(scheduler, { firstDelay: 1, longestDelay: 1, gather: 1, figures: 1 });
  model.start();
  await expect.poll(() => model.state.me).not.toBeNull();
});

afterEach(async () => {
  const dialog = document.querySelector('.jp-Dialog');
  if (dialog) {
    await press('Cancel');
  }
  model.dispose();
  cleanup();
});

describe('the submit dialog', () => {
  it('has a field for each option, the basic ones visible', async () => {
    const dialog = await open('study.ipynb');
    const shown = [...dialog.querySelectorAll<HTMLElement>('[name]')];
    const names = shown.map(element => element.getAttribute('name'));
    const others = ['outputs', 'timezone']; // of cells, and of schedules
    const options = OPTIONS.filter(option => !others.includes(option.name));
    expect(names.sort()).toEqual(['run', ...options.map(option => option.name)].sort());
    const folded = shown.filter(element => element.closest('details'));
    const basic = options.filter(option => option.basic).map(option => option.name);
    expect(folded.map(element => element.getAttribute('name'))).not.toEqual(expect.arrayContaining(basic));
    expect(dialog.querySelector('details')!.open).toBe(false);
  });

  it('hides the parameters unless a notebook is run', async () => {
    await open();
    expect(screen.queryByLabelText('Notebook parameters')).toBeNull();
    write('Run', 'study.ipynb');
    expect(screen.getByLabelText('Notebook parameters')).toBeTruthy();
  });

  it('offers the projects of the user', async () => {
    await open();
    const projects = within(field('Project')).getAllByRole<HTMLOptionElement>('option');
    expect(projects.map(option => option.value)).toEqual(['', 'vision', 'speech']);
  });

  it('shows the files that are sent', async () => {
    const dialog = await open();
    await waitFor(() => expect(dialog.textContent).toContain('Runs in a copy of the folder digits: 2 files (62 B).'));
  });

  it('shows the result of the dry run, and updates it when an option changes', async () => {
    const dialog = await open();
    const said = () => dialog.querySelector('[role="status"]')!.textContent;
    await waitFor(() => expect(said()).toBe('Starts now.'));
    server.dryRun = { ...STARTS, starts: false, reason: 'Waits for 4 GPUs.', estimated_start: Date.now() / 1000 - 1 };
    write('GPUs', '4');
    await waitFor(() => expect(said()).toBe('About to start · Waits for 4 GPUs.'));
    expect(server.tried.at(-1)).toEqual({ folder: 'digits', run: 'train.py', options: { gpus: '4' } });
    server.dryRun = { ...STARTS, after: 2, over_quota: true };
    write('GPUs', '2');
    await waitFor(() => expect(said()).toContain('Starts once 2 jobs have made room. It is over quota: '));
  });

  it('schedules a job in the time zone of the browser', async () => {
    const dialog = await open();
    const here = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const said = () => dialog.querySelector('[role="status"]')!.textContent;
    write('Schedule', 'day');
    await waitFor(() => expect(said()).toMatch(/^Every day at 0?2:00/));
    write('Schedule', 'week');
    write('Day of the week', '5');
    write('Time of day', '18:30');
    await waitFor(() => expect(said()).toMatch(/^Every Friday at .*:30/));
    expect(said()).toContain(here);
    write('Schedule', 'cron');
    expect(field('Cron expression').value).toBe('30 18 * * 5');
    write('Cron expression', '');
    expect(field('Cron expression').value).toBe('');
    fireEvent.blur(field('Cron expression'));
    expect(field('Cron expression').value).toBe('30 18 * * 5');
    write('Cron expression', '0 9 1 * *');
    await press('Send');
    expect(server.forms[0]!.options).toEqual({ schedule: '0 9 1 * *', timezone: here });
  });

  it('sends no time zone without a schedule', async () => {
    await open();
    write('Schedule', 'workday');
    expect(screen.getByLabelText('Time zone')).toBeTruthy();
    write('Schedule', 'once');
    expect(screen.queryByLabelText('Time zone')).toBeNull();
    await press('Send');
    expect(server.forms[0]!.options).toEqual({});
  });

  it('clones a job with its program, and leaves out what is of its files', async () => {
    const submission = await CloneSubmission.of(server, { id: 'j-1', name: 'first' });
    await act(async () => {
      sent = submitDialog(submission, model, 'Clone first', plain);
    });
    const dialog = await screen.findByRole('dialog');
    expect(dialog.textContent).toContain('Runs with the files that were sent with first.');
    expect(field('Run').value).toBe('train.py --epochs 3');
    for (const label of ['Files', 'Sweep', 'Start after', 'Returned variables']) {
      expect(screen.queryByLabelText(label)).toBeNull();
    }
    write('Run', 'train.py --epochs 4');
    await press('Send');
    expect(server.forms).toEqual([{ like: 'j-1', run: 'train.py --epochs 4', options: { gpus: '2' } }]);
  });

  it('closes after submission', async () => {
    await open();
    write('GPUs', '0.5');
    write('Framework', 'torch');
    fireEvent.click(field('Not preemptible'));
    await press('Send');
    expect(await sent).toEqual(SENT);
    expect(server.forms).toEqual([
      {
        folder: 'digits',
        run: 'train.py',
        options: { gpus: '0.5', framework: 'torch', preemptible: 'true' }
      }
    ]);
    expect(screen.queryByRole('dialog')).toBeNull();
  });

  it('stays open when refused, unfolds the field at fault, and focuses it', async () => {
    const dialog = await open();
    server.refuses = [["'soon' is not a duration.", 'max_runtime']];
    write('Maximum run time', 'soon');
    await press('Send');
    expect(screen.getByRole('alert').textContent).toBe("'soon' is not a duration.");
    expect(dialog.querySelector('details')!.open).toBe(true);
    expect(document.activeElement).toBe(field('Maximum run time'));
    expect(field('Maximum run time').getAttribute('aria-invalid')).toBe('true');
    write('Maximum run time', '1h');
    expect(screen.queryByRole('alert')).toBeNull();
    await press('Send');
    expect(await sent).toEqual(SENT);
  });

  it('shows an error without a field at the end of the form', async () => {
    await open();
    server.refuses = [['The scheduler does not answer.', null]];
    await press('Send');
    expect(screen.getByRole('alert').textContent).toBe('The scheduler does not answer.');
  });

  it('submits once on Enter in a field, and shows that it is busy', async () => {
    const dialog = await open();
    let answer = () => {};
    server.before = new Promise(resolve => (answer = resolve));
    field('GPUs').focus();
    fireEvent.keyDown(field('GPUs'), { key: 'Enter' });
    fireEvent.keyDown(field('GPUs'), { key: 'Enter' });
    const button = within(dialog).getByRole<HTMLButtonElement>('button', { name: 'Send' });
    expect(button.disabled).toBe(true);
    await act(async () => answer());
    expect(await sent).toEqual(SENT);
    expect(server.forms).toHaveLength(1);
  });

  it('keeps the focus while a notebook opens behind it', async () => {
    const dialog = await open();
    const editor = document.body.appendChild(document.createElement('textarea'));
    const more = dialog.querySelector('summary')!;
    more.focus();
    editor.focus();
    expect(document.activeElement).toBe(more);
    editor.remove();
  });

  it('sends nothing when cancelled', async () => {
    await open();
    fireEvent.keyDown(field('GPUs'), { key: 'Escape' });
    expect(await sent).toBeNull();
    expect(server.forms).toEqual([]);
  });
});
