/** Sets the build quota of a user, or of each user of a group. */
import { useEffect, useId, useRef, useState, type FormEvent, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';

/** The user or group whose quota is edited; `own` is null if they have no quota of their own. */
export interface QuotaOwner {
  of: 'users' | 'groups';
  name: string;
  own: number | null;
  /** The quota that is in force, or that would be without one of their own. */
  now: number;
}

export interface QuotaDialogProps {
  owner: QuotaOwner;
  close: () => void;
  save: (gpus: number | null) => Promise<void>;
}

export function QuotaDialog({ owner, close, save }: QuotaDialogProps): ReactElement {
  const trans = useTrans();
  const dialog = useRef<HTMLDialogElement>(null);
  const [gpus, setGpus] = useState(String(owner.now));
  const [problem, setProblem] = useState<string | null>(null);
  const id = useId();
  useEffect(() => {
    if (!dialog.current?.open) {
      dialog.current?.showModal();
    }
  }, []);
  const send = (value: number | null) => {
    setProblem(null);
    save(value).then(
      () => dialog.current?.close(),
      (error: Error) => setProblem(error.message)
    );
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    const value = Number(gpus);
    if (gpus.trim() === '' || !(value >= 0 && Number.isFinite(value))) {
      setProblem(trans.__('Enter a number of GPUs, such as 0, 0.5 or 2.'));
    } else {
      send(value);
    }
  };
  const user = owner.of === 'users';
  return (
    <dialog ref={dialog} className="runai-Dialog" aria-labelledby={`${id}-title`} onClose={close}>
      <form onSubmit={submit}>
        <h2 id={`${id}-title`}>{trans.__('Build quota of %1', owner.name)}</h2>
        <p>
          {user
            ? trans.__('GPUs that the user may hold for building. Servers that run keep theirs.')
            : trans.__('GPUs that each user of the group may hold for building. Servers that run keep theirs.')}
        </p>
        <div className="runai-Editor-field">
          <label htmlFor={id}>{trans.__('GPUs')}</label>
          <input id={id} inputMode="decimal" value={gpus} onChange={event => setGpus(event.target.value)} />
          <span className="runai-Hint">
            {user
              ? trans.__('replaces the quotas of the user’s groups')
              : trans.__('the largest quota of a user’s groups applies')}
          </span>
        </div>
        {problem && (
          <p className="runai-Editor-problem" role="alert">
            {problem}
          </p>
        )}
        <div className="runai-Dialog-buttons">
          {owner.own !== null && (
            <button type="button" className="runai-Editor-retire" onClick={() => send(null)}>
              {trans.__('Remove')}
            </button>
          )}
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
