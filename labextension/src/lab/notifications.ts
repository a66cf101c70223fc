import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { noticeOf } from '../model/endings';
import { DOMAIN } from './domain';
import { IJobActions, IPoolModel } from './tokens';

const ID = 'jupyter-runai:notifications';

export const notificationsPlugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Says when a job of the user has ended.',
  autoStart: true,
  requires: [IPoolModel, IJobActions],
  optional: [ISettingRegistry, ITranslator],
  activate: (
    _: JupyterFrontEnd,
    model: IPoolModel,
    actions: IJobActions,
    registry: ISettingRegistry | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load(DOMAIN);
    let wanted = true;
    registry?.load(ID).then(
      settings => {
        const read = () => {
          wanted = settings.composite.jobsThatEnd !== false;
        };
        settings.changed.connect(read);
        read();
      },
      () => undefined // without the schema there is nothing to set
    );
    model.jobEnded.connect((_, job) => {
      const notice = wanted ? noticeOf(job, model.state.jobs.values(), trans) : null;
      if (notice) {
        const log = { label: trans.__('Log'), callback: () => actions.openLog(notice.job) };
        Notification.emit(notice.text, notice.kind, {
          actions: [log],
          autoClose: notice.stays ? false : 8000
        });
      }
    });
  }
};
