import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import type { SessionView } from '../model/api';
import { noticeOf, SUCCESSES } from '../model/endings';
import { idleWords } from '../model/idle';
import { DOMAIN } from './domain';
import { followInterruptions } from './interruptions';
import { IJobActions, IPoolModel } from './tokens';

const ID = 'jupyter-runai:notifications';

export const notificationsPlugin: JupyterFrontEndPlugin<void> = {
  id: ID,
  description: 'Notifies the user when a job is paused or has ended, and of warnings about their servers.',
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
    let pauses = true;
    let successes = SUCCESSES;
    registry?.load(ID).then(
      settings => {
        const read = () => {
          const { jobsThatEnd, jobsThatPause, jobsThatSucceed, shortestSuccess } = settings.composite;
          wanted = jobsThatEnd !== false;
          pauses = jobsThatPause !== false;
          successes = {
            told: jobsThatSucceed !== false,
            from: typeof shortestSuccess === 'number' ? shortestSuccess * 60 : SUCCESSES.from
          };
        };
        settings.changed.connect(read);
        read();
      },
      () => undefined // without its schema the setting is unavailable
    );
    followSessions(model, session => idleWords(session, trans));
    followSessions(model, session => session.memory_warning);
    followInterruptions(model, actions, trans, () => pauses);
    model.jobEnded.connect((_, job) => {
      const notice = wanted ? noticeOf(job, model.state.jobs.values(), trans, successes) : null;
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

/** Tells the user about a server of theirs, as long as there is something to tell. */
function followSessions(model: IPoolModel, words: (session: SessionView) => string): void {
  const shown = new Map<string, { text: string; notice: string }>();
  model.stateChanged.connect(() => {
    const { sessions, me } = model.state;
    const mine = sessions.filter(session => session.user === me?.name && session.state === 'leased');
    const texts = new Map(mine.map(session => [session.id, words(session)]));
    for (const [id, { text, notice }] of shown) {
      if (texts.get(id) !== text) {
        Notification.dismiss(notice);
        shown.delete(id);
      }
    }
    for (const [id, text] of texts) {
      if (text && !shown.has(id)) {
        shown.set(id, { text, notice: Notification.warning(text, { autoClose: false }) });
      }
    }
  });
}
