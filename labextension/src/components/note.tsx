/** An error message with a button to retry. */
import type { ReactElement } from 'react';
import type { IPoolModel, PoolState } from '../model/state';
import { useTrans } from './hooks';

export function ProblemNote({ model, state }: { model: IPoolModel; state: PoolState }): ReactElement | null {
  const trans = useTrans();
  if (state.connection !== 'lost' || !state.problem) {
    return null;
  }
  return (
    <div className="runai-Note" role="alert">
      <span>{state.problem}</span>
      <button type="button" className="runai-Link" onClick={() => model.retry()}>
        {trans.__('Retry')}
      </button>
    </div>
  );
}
