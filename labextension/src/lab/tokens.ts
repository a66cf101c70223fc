import { Token } from '@lumino/coreutils';
import type { JobActions } from '../components/job';
import type { IPoolModel as Model } from '../model/state';

/** The id of the panel in JupyterLab's shell. */
export const PANEL_ID = 'runai-panel';

/** The command that opens a job's view; after a reload it restores the tab. */
export const OPEN_JOB = 'runai:open-job';

/** The GPU pool as the user of this server sees it, live. Other extensions may use it. */
export type IPoolModel = Model;

export const IPoolModel = new Token<IPoolModel>(
  'jupyter-runai:IPoolModel',
  'The GPU pool as the user of this server sees it: projects, jobs, sessions and the event stream behind them.'
);

/** JupyterLab's actions on jobs, for the panel, the cards, the commands and the running list. */
export type IJobActions = Required<JobActions>;

export const IJobActions = new Token<IJobActions>(
  'jupyter-runai:IJobActions',
  'Cancel, pause, resume and delete a job of the GPU pool, and show its log or its page; asks for confirmation and reports errors.'
);
