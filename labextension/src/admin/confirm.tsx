/** Asks before a job is cancelled, in the browser's own modal dialog. */
import { useCallback, useEffect, useRef, useState, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { JobView } from '../model/api';

interface Question {
  job: JobView;
  answer: (yes: boolean) => void;
}

export function useConfirm(): [(job: JobView) => Promise<boolean>, ReactElement | null] {
  const trans = useTrans();
  const [question, setQuestion] = useState<Question | null>(null);
  const dialog = useRef<HTMLDialogElement>(null);
  const ask = useCallback(
    (job: JobView) => new Promise<boolean>(answer => setQuestion({ job, answer })),
    []
  );
  useEffect(() => {
    if (question && !dialog.current?.open) {
      dialog.current?.showModal();
    }
  }, [question]);
  const close = (yes: boolean) => {
    question?.answer(yes);
    setQuestion(null);
  };
  const element = question && (
    <dialog
      ref={dialog}
      className="runai-Dialog"
      aria-labelledby="runai-question"
      onClose={() => close(false)}
    >
      <h2 id="runai-question">{trans.__('Cancel %1?', question.job.name)}</h2>
      <p>
        {trans.__(
          '%1 of %2 stops for good; what it has not saved is lost.',
          question.job.name,
          question.job.mine ? trans.__('yours') : question.job.user
        )}
      </p>
      <div className="runai-Dialog-buttons">
        <button type="button" autoFocus onClick={() => close(false)}>
          {trans.__('Keep it')}
        </button>
        <button type="button" className="runai-Danger" onClick={() => close(true)}>
          {trans.__('Cancel the job')}
        </button>
      </div>
    </dialog>
  );
  return [ask, element];
}
