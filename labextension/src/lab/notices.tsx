/** Where the user is told of their jobs outside the browser, by a dialog. The menu entry is in schema/notices.json. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ICommandPalette, Notification } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { NoticesForm } from '../components/notices';
import { Notices } from '../model/notices';
import type { Trans } from '../trans';
import { DOMAIN } from './domain';
import { FormDialog } from './formdialog';
import { gpuIcon } from './icon';
import { IPoolModel } from './tokens';

export const NOTICES = 'runai:notices';

export const noticesPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-runai:notices',
  description: 'Lets the user choose where they are told of their jobs outside the browser.',
  autoStart: true,
  requires: [IPoolModel],
  optional: [ICommandPalette, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    model: IPoolModel,
    palette: ICommandPalette | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    app.commands.addCommand(NOTICES, {
      label: trans.__('GPU Pool Notices…'),
      caption: trans.__('Be told of your jobs by e-mail, Slack, Teams or a webhook'),
      icon: gpuIcon,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: async () => {
        try {
          await noticesDialog(new Notices(model.client, await model.client.notices()), trans);
        } catch (error) {
          Notification.error((error as Error).message, { autoClose: 8000 });
        }
      }
    });
    palette?.addItem({ command: NOTICES, category: trans.__('GPU pool') });
  }
};

/** Shows the form until it is saved or cancelled. */
export async function noticesDialog(notices: Notices, trans: Trans): Promise<void> {
  await new NoticesDialog(notices, trans).launch();
}

class NoticesDialog extends FormDialog {
  constructor(
    private readonly _notices: Notices,
    trans: Trans
  ) {
    super({
      title: trans.__('Notices of your jobs'),
      form: <NoticesForm notices={_notices} />,
      cancel: trans.__('Close'),
      send: trans.__('Save'),
      focus: 'channel',
      trans
    });
  }

  protected override async send(): Promise<boolean> {
    return !this._notices.state.busy && (await this._notices.save());
  }
}
