/** A form whose change is reviewed before it is applied: the fields, then what they would change, then it is done. */
import { useEffect, useId, useRef, useState, type FormEvent, type ReactElement, type ReactNode } from 'react';
import { useTrans } from '../components/hooks';
import type { Applied, JobView } from '../model/api';
import { Preview } from './preview';

export interface ReviewDialogProps {
  title: string;
  /** Whether the fields are there. */
  ready: boolean;
  jobs: ReadonlyMap<string, JobView>;
  /** What the change would bring about. */
  look: () => Promise<Applied>;
  apply: () => Promise<unknown>;
  close: () => void;
  children: ReactNode;
}

export function ReviewDialog(props: ReviewDialogProps): ReactElement {
  const { title, ready, jobs, look, apply, close, children } = props;
  const trans = useTrans();
  const dialog = useRef<HTMLDialogElement>(null);
  const [found, setFound] = useState<Applied | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const id = useId();
  useEffect(() => {
    if (!dialog.current?.open) {
      dialog.current?.showModal();
    }
    if (ready) {
      dialog.current?.querySelector<HTMLElement>('input, select')?.focus();
    }
  }, [ready]);
  const end = () => dialog.current?.close(); // the browser restores the focus
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    const done = found ? apply().then(end) : look().then(setFound);
    done
      .catch((error: Error) => {
        setProblem(error.message);
        setFound(null);
      })
      .finally(() => setBusy(false));
  };
  return (
    <dialog ref={dialog} className="runai-Dialog runai-Editor" aria-labelledby={id} onClose={close}>
      <form onSubmit={submit}>
        <h2 id={id}>{title}</h2>
        {found ? <Preview found={found} jobs={jobs} /> : children}
        {problem && (
          <p className="runai-Editor-problem" role="alert">
            {problem}
          </p>
        )}
        <div className="runai-Dialog-buttons">
          <button type="button" onClick={found ? () => setFound(null) : end}>
            {found ? trans.__('Back') : trans.__('Close')}
          </button>
          <button type="submit" className="runai-Primary" disabled={busy || !ready || found?.changes.length === 0}>
            {found ? trans.__('Apply') : trans.__('Review the change')}
          </button>
        </div>
      </form>
    </dialog>
  );
}
