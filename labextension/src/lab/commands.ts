import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Clipboard, ICommandPalette, InputDialog, Notification } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { mayAct, mayReadLog, verbs } from '../components/job';
import { ordered } from '../components/jobs';
import type { JobView } from '../model/api';
import type { JobVerb } from '../model/client';
import { stateWord } from '../model/format';
import { isFinal } from '../model/state';
import { DOMAIN } from './domain';
import { gpuIcon } from './icon';
import { IJobActions, IPoolModel, OPEN_JOB, PANEL_ID } from './tokens';

export const COMMANDS = {
  show: 'runai:show-panel',
  reconnect: 'runai:reconnect',
  open: OPEN_JOB,
  log: 'runai:open-log',
  cell: 'runai:open-cell',
  pause: 'runai:pause-job',
  resume: 'runai:resume-job',
  priority: 'runai:change-priority',
  clone: 'runai:clone-job',
  copy: 'runai:copy-job-id',
  cancel: 'runai:cancel-job',
  delete: 'runai:delete-job'
} as const;

const ARGUMENTS = {
  type: 'object',
  properties: {
    id: { type: 'string', description: 'The job; the user is asked if it is absent.' },
    clicked: { type: 'boolean', description: 'Use the job whose row was clicked.' }
  }
} as const;

/** What can be done with a job. */
interface JobCommand {
  command: string;
  /** Its name in the menu of a job. */
  word: string;
  /** Its name in the palette, where the job is chosen. */
  label: string;
  qualifies: (job: JobView) => boolean;
  run: (job: JobView) => void | Promise<void>;
}

export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-runai:commands',
  description: 'Commands of the GPU pool, also in the palette.',
  autoStart: true,
  requires: [IPoolModel, IJobActions],
  optional: [ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    model: IPoolModel,
    actions: IJobActions,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const category = trans.__('GPU pool');

    /** The job whose row the context menu was opened on. */
    function clicked(): JobView | undefined {
      const row = app.contextMenuHitTest(node => node.dataset['job'] !== undefined);
      return model.state.jobs.get(row?.dataset['job'] ?? '');
    }

    /** The job that the arguments name, or the one that the user picks from the jobs that qualify. */
    async function chosen(args: ReadonlyPartialJSONObject, { word, qualifies }: JobCommand) {
      if (args['clicked']) {
        return clicked();
      }
      if (typeof args['id'] === 'string') {
        return model.follow(args['id']);
      }
      const jobs = ordered([...model.state.jobs.values()].filter(qualifies)).map(one => one.job);
      const result = await InputDialog.getItem({
        title: word,
        label: trans.__('Job'),
        items: jobs.map(job => `${job.name} · ${stateWord(job.state, trans)} · ${job.id}`)
      });
      const text = result.button.accept ? result.value : null;
      return jobs.find(job => text?.endsWith(job.id));
    }

    function add(found: JobCommand): void {
      const { command, word, label, qualifies, run } = found;
      const fits = (args: ReadonlyPartialJSONObject) => {
        const job = args['clicked'] ? clicked() : undefined;
        return job !== undefined && qualifies(job);
      };
      app.commands.addCommand(command, {
        label: args => (args['clicked'] ? word : label),
        describedBy: { args: ARGUMENTS },
        isVisible: args => !args['clicked'] || fits(args),
        isEnabled: args =>
          typeof args['id'] === 'string' || fits(args) || [...model.state.jobs.values()].some(qualifies),
        execute: async args => {
          const job = await chosen(args, found);
          if (job) {
            await run(job);
          }
        }
      });
    }

    const may = (verb: JobVerb) => (job: JobView) => verbs(job, model.state.me).includes(verb);
    const mine = (job: JobView) => mayReadLog(job, model.state.me);

    async function goToCell(job: JobView): Promise<void> {
      try {
        const { cell } = await model.client.submission(job.id);
        if (!cell) {
          throw new Error(trans.__('It is not known which cell %1 was sent from.', job.name));
        }
        await actions.openCell(cell);
      } catch (error) {
        Notification.error((error as Error).message, { autoClose: 8000 });
      }
    }

    app.commands.addCommand(COMMANDS.show, {
      label: trans.__('Show the GPU pool'),
      icon: gpuIcon,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => app.shell.activateById(PANEL_ID)
    });
    app.commands.addCommand(COMMANDS.reconnect, {
      label: trans.__('Reconnect to the GPU pool'),
      describedBy: { args: { type: 'object', properties: {} } },
      isEnabled: () => model.state.connection === 'lost',
      execute: () => model.retry()
    });
    app.commands.addCommand(COMMANDS.open, {
      label: args => (args['clicked'] ? trans.__('Open') : trans.__('Open a job…')),
      describedBy: { args: ARGUMENTS },
      isEnabled: args => typeof args['id'] === 'string' || model.state.jobs.size > 0,
      execute: async args => {
        // With an id the tab opens at once: after a reload the pool is not connected yet.
        const any = { command: COMMANDS.open, word: trans.__('Open'), label: '', qualifies: () => true, run: () => {} };
        const id = typeof args['id'] === 'string' ? args['id'] : (await chosen(args, any))?.id;
        if (id) {
          actions.openJob(id);
        }
      }
    });
    add({
      command: COMMANDS.log,
      word: trans.__('Open the log'),
      label: trans.__('Open the log of a job…'),
      qualifies: mine,
      run: job => actions.openLog(job)
    });
    add({
      command: COMMANDS.cell,
      word: trans.__('Go to the cell'),
      label: trans.__('Go to the cell of a job…'),
      qualifies: job => mine(job) && job.kind === 'cell',
      run: goToCell
    });
    add({
      command: COMMANDS.pause,
      word: trans.__('Pause'),
      label: trans.__('Pause a job…'),
      qualifies: may('pause'),
      run: job => actions.act(job, 'pause')
    });
    add({
      command: COMMANDS.resume,
      word: trans.__('Resume'),
      label: trans.__('Resume a job…'),
      qualifies: may('resume'),
      run: job => actions.act(job, 'resume')
    });
    add({
      command: COMMANDS.priority,
      word: trans.__('Change the priority…'),
      label: trans.__('Change the priority of a job…'),
      qualifies: job => mayAct(job, model.state.me) && !isFinal(job.state),
      run: job => actions.changePriority(job)
    });
    add({
      command: COMMANDS.clone,
      word: trans.__('Clone…'),
      label: trans.__('Clone a job…'),
      qualifies: mine,
      run: job => actions.clone(job)
    });
    add({
      command: COMMANDS.copy,
      word: trans.__('Copy id'),
      label: trans.__('Copy the id of a job…'),
      qualifies: () => true,
      run: job => Clipboard.copyToSystem(job.id)
    });
    add({
      command: COMMANDS.cancel,
      word: trans.__('Cancel'),
      label: trans.__('Cancel a job…'),
      qualifies: may('cancel'),
      run: job => actions.act(job, 'cancel')
    });
    add({
      command: COMMANDS.delete,
      word: trans.__('Delete'),
      label: trans.__('Delete a finished job…'),
      qualifies: may('delete'),
      run: job => actions.act(job, 'delete')
    });
    model.stateChanged.connect(() => app.commands.notifyCommandChanged());

    for (const command of Object.values(COMMANDS)) {
      palette?.addItem({ command, category });
    }
  }
};
