/**
 * Submits jobs from a dialog: “Train…” on a file, “New job” in the panel, the launcher and the command palette. The menu
 * entries are in schema/submit.json.
 */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { ILauncher } from '@jupyterlab/launcher';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { SubmitForm } from '../components/submit';
import { asked } from '../model/asked';
import { clock } from '../model/format';
import type { IPoolModel as Model } from '../model/state';
import { JobSubmission, RUN, type Sent, type Submission } from '../model/submission';
import type { Trans } from '../trans';
import { DOMAIN } from './domain';
import { FormDialog, SEND } from './formdialog';
import { gpuIcon } from './icon';
import { SentForms, type SentForm } from './sentforms';
import { IPoolModel, PANEL_ID } from './tokens';
import { ServerTransport } from './transport';

export const SUBMIT = {
  newJob: 'runai:new-job',
  trainFile: 'runai:train-file',
  trainNotebook: 'runai:train-notebook'
} as const;

export const submitPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-runai:submit',
  description: 'Sends a script, a notebook or a command to the GPU pool by a dialog.',
  autoStart: true,
  requires: [IPoolModel],
  optional: [IFileBrowserFactory, ICommandPalette, ITranslator, IStateDB, ILauncher],
  activate: (
    app: JupyterFrontEnd,
    model: Model,
    browsers: IFileBrowserFactory | null,
    palette: ICommandPalette | null,
    translator: ITranslator | null,
    state: IStateDB | null,
    launcher: ILauncher | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    const server = new ServerTransport(app.serviceManager.serverSettings, 'runai');
    const { contents } = app.serviceManager;
    const forms = new SentForms(state);

    /** Opens the form of a job file, which is that of the file, whatever was sent before. */
    async function trainJobFile(file: string): Promise<void> {
      const path = `job-file?${new URLSearchParams({ path: contents.localPath(file) })}`;
      try {
        const form = await asked<{ run: string; options: Record<string, string> }>(server, path, {});
        await ask(trans.__('Train on the GPU pool'), PathExt.dirname(file), { run: form.run, values: form.options });
      } catch (error) {
        Notification.error((error as Error).message, { autoClose: 8000 });
      }
    }

    async function train(file: string): Promise<void> {
      const form = (await forms.of(file)) ?? { run: quoted(PathExt.basename(file)), values: {} };
      const submission = await ask(trans.__('Train on the GPU pool'), PathExt.dirname(file), form);
      if (submission) {
        const { run, values } = submission.state;
        await forms.keep(file, { run, values });
      }
    }

    /** Shows the dialog. Returns what was submitted, or null if the user cancelled. */
    async function ask(title: string, folder: string, form: SentForm): Promise<JobSubmission | null> {
      const submission = new JobSubmission(server, contents.localPath(folder), form.run, form.values);
      return (await sendByDialog(app, submission, model, title, trans)) && submission;
    }

    app.commands.addCommand(SUBMIT.newJob, {
      label: trans.__('New job…'),
      caption: trans.__('Send a script, a notebook or a command to the GPU pool'),
      icon: gpuIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            cwd: { type: 'string', description: "The folder; the file browser's where it is absent." }
          }
        }
      },
      execute: args => {
        const folder = typeof args.cwd === 'string' ? args.cwd : (browsers?.tracker.currentWidget?.model.path ?? '');
        return ask(trans.__('New job'), folder, { run: '', values: {} });
      }
    });
    app.commands.addCommand(SUBMIT.trainFile, {
      label: trans.__('Train…'),
      caption: trans.__('Send this file to the GPU pool'),
      icon: gpuIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            path: { type: 'string', description: 'The file; the one selected where it is absent.' }
          }
        }
      },
      isVisible: args => fileOf(args.path, browsers) !== null,
      execute: async args => {
        const path = fileOf(args.path, browsers);
        if (path) {
          await (/\.ya?ml$/.test(path) ? trainJobFile(path) : train(path));
        }
      }
    });
    app.commands.addCommand(SUBMIT.trainNotebook, {
      label: trans.__('Train This Notebook…'),
      caption: trans.__('Run this notebook on the GPU pool'),
      icon: gpuIcon,
      describedBy: { args: { type: 'object', properties: {} } },
      isEnabled: () => notebookOf(app) !== null,
      execute: async () => {
        const context = notebookOf(app);
        if (context?.model.dirty) {
          await context.save(); // the job runs the saved file
        }
        if (context) {
          await train(context.path);
        }
      }
    });
    app.shell.currentChanged?.connect(() => app.commands.notifyCommandChanged(SUBMIT.trainNotebook));
    for (const command of [SUBMIT.newJob, SUBMIT.trainNotebook]) {
      palette?.addItem({ command, category: trans.__('GPU pool') });
    }
    launcher?.add({ command: SUBMIT.newJob, category: trans.__('GPU pool') });
  }
};

/** The parts of JupyterLab's document context that are used here. */
interface IContext {
  readonly path: string;
  readonly model: { readonly dirty: boolean };
  save(): Promise<void>;
}

/** The file of the current notebook. */
function notebookOf(app: JupyterFrontEnd): IContext | null {
  const context = (app.shell.currentWidget as { context?: IContext } | null)?.context;
  return context?.path.endsWith('.ipynb') ? context : null;
}

/** The file given, or else the only selected file. */
function fileOf(path: unknown, browsers: IFileBrowserFactory | null): string | null {
  if (typeof path === 'string') {
    return path;
  }
  const selected = [...(browsers?.tracker.currentWidget?.selectedItems() ?? [])];
  return selected.length === 1 ? selected[0]!.path : null;
}

/** A file name, quoted as one word of a command line. */
function quoted(name: string): string {
  return /^[\w./+@%:-]+$/.test(name) ? name : `'${name.replaceAll("'", `'"'"'`)}'`;
}

function inWords(sent: Sent, trans: Trans): string {
  if (sent.next_run !== null) {
    return trans.__(
      '%1 runs next at %2, in project %3.',
      sent.name,
      clock(sent.next_run, Date.now() / 1000),
      sent.project
    );
  }
  return sent.jobs > 1
    ? trans.__('%1: %2 jobs were sent to project %3.', sent.name, sent.jobs, sent.project)
    : trans.__('%1 was sent to project %2.', sent.name, sent.project);
}

/** Shows the form until it is submitted, or cancelled: then null. Tells what was submitted. */
export async function sendByDialog(
  app: JupyterFrontEnd,
  submission: Submission<Sent>,
  model: Model,
  title: string,
  trans: Trans
): Promise<Sent | null> {
  const sent = await submitDialog(submission, model, title, trans);
  if (sent) {
    Notification.success(inWords(sent, trans), {
      autoClose: 8000,
      actions: [{ label: trans.__('Show'), callback: () => app.shell.activateById(PANEL_ID) }]
    });
  }
  return sent;
}

/** Shows the form until it is submitted, or cancelled: then null. */
export async function submitDialog<T>(
  submission: Submission<T>,
  model: Model,
  title: string,
  trans: Trans
): Promise<T | null> {
  const dialog = new SubmitDialog(submission, model, title, trans);
  await dialog.launch();
  return dialog.sent;
}

class SubmitDialog<T> extends FormDialog {
  sent: T | null = null;

  constructor(
    private readonly _submission: Submission<T>,
    model: Model,
    title: string,
    trans: Trans
  ) {
    super({
      title,
      form: <SubmitForm submission={_submission} model={model} />,
      cancel: trans.__('Cancel'),
      send: trans.__('Send'),
      focus: _submission instanceof JobSubmission && !_submission.state.run ? RUN : 'gpus',
      trans
    });
    _submission.changed.connect(this._show, this);
  }

  override dispose(): void {
    this._submission.changed.disconnect(this._show, this);
    this._submission.dispose();
    super.dispose();
  }

  protected override async send(): Promise<boolean> {
    this.sent = (await this._submission.send()) ?? this.sent;
    return this.sent !== null;
  }

  private _show(): void {
    const button = this.node.querySelector<HTMLButtonElement>(`.${SEND}`);
    if (button) {
      button.disabled = this._submission.state.sending;
    }
  }
}
