import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, InputDialog } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { mayReadLog, verbs } from '../components/job';
import { ordered } from '../components/jobs';
import type { JobView } from '../model/api';
import type { JobVerb } from '../model/client';
import { stateWord } from '../model/format';
import { DOMAIN } from './domain';
import { gpuIcon } from './icon';
import { IJobActions, IPoolModel, OPEN_JOB, PANEL_ID } from './tokens';

export const COMMANDS = {
  show: 'runai:show-panel',
  reconnect: 'runai:reconnect',
  open: OPEN_JOB,
  log: 'runai:open-log',
  pause: 'runai:pause-job',
  resume: 'runai:resume-job',
  cancel: 'runai:cancel-job',
  delete: 'runai:delete-job'
} as const;

const ID_ARGUMENT = {
  type: 'object',
  properties: { id: { type: 'string', description: 'The job; the user is asked if it is absent.' } }
} as const;

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

    /** The job with this id, or the one that the user picks from the jobs that qualify. */
    async function chosen(id: unknown, title: string, qualifies: (job: JobView) => boolean) {
      if (typeof id === 'string') {
        return model.follow(id);
      }
      const jobs = ordered([...model.state.jobs.values()].filter(qualifies)).map(one => one.job);
      const result = await InputDialog.getItem({
        title,
        label: trans.__('Job'),
        items: jobs.map(job => `${job.name} · ${stateWord(job.state, trans)} · ${job.id}`)
      });
      const text = result.button.accept ? result.value : null;
      return jobs.find(job => text?.endsWith(job.id));
    }

    function add(
      command: string,
      label: string,
      title: string,
      qualifies: (job: JobView) => boolean,
      run: (job: JobView) => void | Promise<void>
    ): void {
      app.commands.addCommand(command, {
        label,
        describedBy: { args: ID_ARGUMENT },
        isEnabled: args => typeof args.id === 'string' || [...model.state.jobs.values()].some(qualifies),
        execute: async args => {
          const job = await chosen(args.id, title, qualifies);
          if (job) {
            await run(job);
          }
        }
      });
    }

    const may = (verb: JobVerb) => (job: JobView) => verbs(job, model.state.me).includes(verb);

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
      label: trans.__('Open a job…'),
      describedBy: { args: ID_ARGUMENT },
      isEnabled: args => typeof args.id === 'string' || model.state.jobs.size > 0,
      execute: async args => {
        // With an id the tab opens at once: after a reload the pool is not connected yet.
        const id = typeof args.id === 'string' ? args.id : (await chosen(null, trans.__('Open'), () => true))?.id;
        if (id) {
          actions.openJob(id);
        }
      }
    });
    add(
      COMMANDS.log,
      trans.__('Open the log of a job…'),
      trans.__('Open the log of'),
      job => mayReadLog(job, model.state.me),
      job => actions.openLog(job)
    );
    add(COMMANDS.pause, trans.__('Pause a job…'), trans.__('Pause'), may('pause'), job => actions.act(job, 'pause'));
    add(COMMANDS.resume, trans.__('Resume a job…'), trans.__('Resume'), may('resume'), job =>
      actions.act(job, 'resume')
    );
    add(COMMANDS.cancel, trans.__('Cancel a job…'), trans.__('Cancel'), may('cancel'), job =>
      actions.act(job, 'cancel')
    );
    add(COMMANDS.delete, trans.__('Delete a finished job…'), trans.__('Delete'), may('delete'), job =>
      actions.act(job, 'delete')
    );
    model.stateChanged.connect(() => app.commands.notifyCommandChanged());

    for (const command of Object.values(COMMANDS)) {
      palette?.addItem({ command, category });
    }
  }
};
