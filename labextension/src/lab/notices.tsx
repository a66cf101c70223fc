/** Where the user is told of their jobs outside the browser, by a dialog. The menu entry is in schema/notices.json. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Dialog, ICommandPalette, Notification } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import type { ReactElement } from 'react';
import { TransContext } from '../components/hooks';
import { NoticesForm } from '../components/notices';
import { Notices } from '../model/notices';
import type { Trans } from '../trans';
import { DOMAIN } from './domain';
import { gpuIcon } from './icon';
import { takeFocus } from './submit';
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

/** JupyterLab's dialog, which stays open when a choice is refused. */
class NoticesDialog extends Dialog<null> {
  constructor(
    private readonly _notices: Notices,
    trans: Trans
  ) {
    super({
      title: trans.__('Notices of your jobs'),
      body: new FormWidget(_notices, trans),
      buttons: [Dialog.cancelButton({ label: trans.__('Close') }), Dialog.okButton({ label: trans.__('Save') })],
      focusNodeSelector: '[name="channel"]'
    });
    this.addClass('runai-SubmitDialog');
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    takeFocus(this.node);
  }

  override resolve(index?: number): void {
    if (index === 0) {
      super.resolve(0);
    } else if (!this._notices.state.busy) {
      void this._notices.save().then(saved => saved && super.resolve(1));
    }
  }
}

class FormWidget extends ReactWidget {
  constructor(
    private readonly _notices: Notices,
    private readonly _trans: Trans
  ) {
    super();
  }

  protected override render(): ReactElement {
    return (
      <TransContext.Provider value={this._trans}>
        <NoticesForm notices={this._notices} />
      </TransContext.Provider>
    );
  }
}
