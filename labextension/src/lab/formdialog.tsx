/** JupyterLab's dialog with a form, which stays open while the form is sent and when it is refused. */
import { Dialog } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { Message } from '@lumino/messaging';
import type { ReactElement } from 'react';
import { TransContext } from '../components/hooks';
import { OWN_KEYS } from '../components/templates';
import type { Trans } from '../trans';

/** The class of the button that sends the form. */
export const SEND = 'runai-Submit-send';

export interface FormDialogOptions {
  title: string;
  form: ReactElement;
  /** The labels of the buttons. */
  cancel: string;
  send: string;
  /** The field that has the focus at first. */
  focus: string;
  trans: Trans;
}

export abstract class FormDialog extends Dialog<null> {
  constructor({ title, form, cancel, send, focus, trans }: FormDialogOptions) {
    super({
      title,
      body: ReactWidget.create(<TransContext.Provider value={trans}>{form}</TransContext.Provider>),
      buttons: [Dialog.cancelButton({ label: cancel }), Dialog.okButton({ label: send, className: SEND })],
      focusNodeSelector: `[name="${focus}"]`
    });
    this.addClass('runai-SubmitDialog');
  }

  /** Sends the form; returns whether it was accepted, which closes the dialog. */
  protected abstract send(): Promise<boolean>;

  override resolve(index?: number): void {
    if (index === 0) {
      super.resolve(0);
    } else {
      void this.send().then(accepted => accepted && super.resolve(1));
    }
  }

  /** Its first field takes the focus only when the browser is idle: until then the dialog itself has it, for Escape. */
  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    this.node.tabIndex = -1;
    this.node.focus();
  }

  /** A notebook that opens meanwhile takes the focus: give it back to the user's field, not to the first one. */
  override handleEvent(event: Event): void {
    if (event.type === 'keydown' && (event.target as HTMLElement).closest(`.${OWN_KEYS}`)) {
      return;
    }
    if (event.type === 'focus') {
      const target = event.target as HTMLElement;
      if (this.node.contains(target)) {
        this._focused = target;
      } else if (this._focused?.isConnected) {
        event.stopPropagation();
        this._focused.focus();
        return;
      }
    }
    super.handleEvent(event);
  }

  private _focused: HTMLElement | null = null;
}
