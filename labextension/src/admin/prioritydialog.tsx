/** Changes the priority of a job, or of several jobs together. */
import { useEffect, useId, useRef, useState, type FormEvent, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { JobView } from '../model/api';
import type { Client } from '../model/client';
import { PoolError } from '../model/transport';

export interface PriorityDialogProps {
  jobs: readonly JobView[];
  client: Client;
  close: () => void;
}

const MOST = 1000;
const CONFLICT = 409;

export function PriorityDialog({ jobs, client, close }: PriorityDialogProps): ReactElement {
  const trans = useTrans();
  const dialog = useRef<HTMLDialogElement>(null);
  const [first] = jobs;
  const [priority, setPriority] = useState(String(first?.priority ?? ''));
  const [problem, setProblem] = useState<string | null>(null);
  const id = useId();
  useEffect(() => {
    if (!dialog.current?.open) {
      dialog.current?.showModal();
    }
  }, []);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const value = Number(priority);
    if (priority.trim() === '' || !Number.isInteger(value) || value < 0 || value > MOST) {
      setProblem(trans.__('Enter a whole number from 0 to 1000.'));
      return;
    }
    setProblem(null);
    setPriorities(client, jobs, value).then(
      () => dialog.current?.close(),
      (error: Error) => setProblem(error.message)
    );
  };
  return (
    <dialog ref={dialog} className="runai-Dialog" aria-labelledby={`${id}-title`} onClose={close}>
      <form onSubmit={submit}>
        <h2 id={`${id}-title`}>
          {jobs.length === 1 ? trans.__('Priority of %1', first!.name) : trans.__('Priority of %1 jobs', jobs.length)}
        </h2>
        <p>
          {trans.__(
            'Within a project, the job with the highest priority starts first. It may stop jobs of lower priority, which are queued again.'
          )}
        </p>
        <div className="runai-Editor-field">
          <label htmlFor={id}>{trans.__('Priority')}</label>
          <input id={id} inputMode="numeric" value={priority} onChange={event => setPriority(event.target.value)} />
          <span className="runai-Hint">{trans.__('from 0 to 1000; a project may have a lower maximum')}</span>
        </div>
        {problem && (
          <p className="runai-Editor-problem" role="alert">
            {problem}
          </p>
        )}
        <div className="runai-Dialog-buttons">
          <button type="button" onClick={() => dialog.current?.close()}>
            {trans.__('Close')}
          </button>
          <button type="submit" className="runai-Primary">
            {trans.__('Set')}
          </button>
        </div>
      </form>
    </dialog>
  );
}

/** Of several jobs, those that have ended meanwhile are ignored. */
async function setPriorities(client: Client, jobs: readonly JobView[], priority: number): Promise<void> {
  for (const job of jobs) {
    try {
      await client.setPriority(job.id, priority);
    } catch (error) {
      if (jobs.length === 1 || !(error instanceof PoolError && error.status === CONFLICT)) {
        throw error;
      }
    }
  }
}
