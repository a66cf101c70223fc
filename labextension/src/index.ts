import { actionsPlugin } from './lab/actions';
import { activityPlugin } from './lab/activity';
import { cardPlugin } from './lab/card';
import { sweepPlugin } from './lab/sweep';
import { cellPlugin } from './lab/cell';
import { commandsPlugin } from './lab/commands';
import { executionsPlugin } from './lab/executions';
import { modelPlugin } from './lab/model';
import { noticesPlugin } from './lab/notices';
import { notificationsPlugin } from './lab/notifications';
import { panelPlugin } from './lab/panel';
import { runningPlugin } from './lab/running';
import { statusPlugin } from './lab/status';
import { submitPlugin } from './lab/submit';
import { welcomePlugin } from './lab/welcome';

export { IJobActions, IPoolModel } from './lab/tokens';

export default [
  executionsPlugin,
  modelPlugin,
  actionsPlugin,
  panelPlugin,
  commandsPlugin,
  submitPlugin,
  cellPlugin,
  runningPlugin,
  statusPlugin,
  notificationsPlugin,
  noticesPlugin,
  cardPlugin,
  sweepPlugin,
  welcomePlugin,
  activityPlugin
];
