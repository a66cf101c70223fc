/** A job that is shown by its id. */
import { useEffect, useState } from 'react';
import type { IPoolModel } from '../model/state';
import { PoolError } from '../model/transport';
import type { Trans } from '../trans';
import { usePool, useTrans } from './hooks';

/** Loads the job into the model and returns the error if that fails. */
export function useFollowed(id: string, model: IPoolModel, known: boolean): string | null {
  const [problem, setProblem] = useState<string | null>(null);
  const live = usePool(model).connection;
  const trans = useTrans();
  useEffect(() => {
    if (known) {
      return;
    }
    let current = true;
    model.follow(id).then(
      () => current && setProblem(null),
      (error: unknown) => current && setProblem(sentenceOf(error, trans))
    );
    return () => {
      current = false;
    };
    // Tried again when the connection is restored.
  }, [id, model, known, live, trans]);
  return problem;
}

function sentenceOf(error: unknown, trans: Trans): string {
  if (error instanceof PoolError && error.status === 404) {
    return trans.__('This pool has no such job. It was deleted, or it belongs to another pool.');
  }
  return error instanceof Error ? error.message : String(error);
}
