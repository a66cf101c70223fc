import { ReactWidget } from '@jupyterlab/ui-components';
import type { ReactElement } from 'react';
import { TransContext, useNow, usePool, useTrans } from '../components/hooks';
import { StateIcon } from '../components/icons';
import { LogView } from '../components/log';
import type { JobView } from '../model/api';
import { sentence } from '../model/format';
import type { IPoolModel } from '../model/state';
import type { Trans } from '../trans';
import { gpuIcon } from './icon';

/** The whole log of a job, in a tab. */
export class LogWidget extends ReactWidget {
  readonly job: string;

  constructor(
    private readonly _model: IPoolModel,
    private readonly _first: JobView,
    private readonly _trans: Trans
  ) {
    super();
    this.job = _first.id;
    this.id = `runai-log-${_first.id}`;
    this.title.label = _trans.__('Log of %1', _first.name);
    this.title.icon = gpuIcon;
    this.title.closable = true;
    this.addClass('runai-LogWidget');
  }

  protected override render(): ReactElement {
    return (
      <TransContext.Provider value={this._trans}>
        <LogPage model={this._model} first={this._first} />
      </TransContext.Provider>
    );
  }
}

function LogPage({ model, first }: { model: IPoolModel; first: JobView }): ReactElement {
  const trans = useTrans();
  const now = useNow();
  const job = usePool(model).jobs.get(first.id) ?? first;
  return (
    <>
      <header className="runai-LogWidget-head">
        <StateIcon state={job.state} />
        <span className="runai-Name">{job.name}</span>
        <span className="runai-Aside">{sentence(job, now, trans)}</span>
      </header>
      <LogView client={model.client} job={job} />
    </>
  );
}
