import { Clipboard } from '@jupyterlab/apputils';
import { ReactWidget } from '@jupyterlab/ui-components';
import type { ReactElement } from 'react';
import { TransContext } from '../components/hooks';
import type { JobActions } from '../components/job';
import { JobPage } from '../components/jobpage';
import type { IPoolModel } from '../model/state';
import type { Trans } from '../trans';
import { gpuIcon } from './icon';

/** All details of one job, in a tab named after the job. */
export class JobWidget extends ReactWidget {
  constructor(
    readonly job: string,
    private readonly _model: IPoolModel,
    private readonly _actions: JobActions,
    private readonly _trans: Trans
  ) {
    super();
    this.id = `runai-job-${job}`;
    this.title.icon = gpuIcon;
    this.title.closable = true;
    this.addClass('runai-JobWidget');
    _model.stateChanged.connect(this._name, this);
    this._name();
  }

  override dispose(): void {
    this._model.stateChanged.disconnect(this._name, this);
    super.dispose();
  }

  protected override render(): ReactElement {
    return (
      <TransContext.Provider value={this._trans}>
        <JobPage
          id={this.job}
          model={this._model}
          actions={this._actions}
          copy={text => Clipboard.copyToSystem(text)}
          save={save}
        />
      </TransContext.Provider>
    );
  }

  private _name(): void {
    this.title.label = this._model.state.jobs.get(this.job)?.name ?? this.job;
  }
}

function save(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}
