import { Token } from '@lumino/coreutils';
import type { JobActions } from '../components/job';
import type { IPoolModel as Model } from '../model/state';

/** The panel, in JupyterLab's shell. */
export const PANEL_ID = 'runai-panel';

/** The GPU pool as the user of this server sees it, live: other extensions may build on it. */
export type IPoolModel = Model;

export const IPoolModel = new Token<IPoolModel>(
  'jupyter-runai:IPoolModel',
  'The GPU pool as the user of this server sees it: projects, jobs, sessions and the event stream behind them.'
);

/** What JupyterLab lets people do with jobs: one place for the panel, the cards, the commands and the running list. */
export type IJobActions = Required<JobActions>;

export const IJobActions = new Token<IJobActions>(
  'jupyter-runai:IJobActions',
  'Cancel, pause, resume and delete a job of the GPU pool, and show its log; asks and tells the user by itself.'
);
