/** Asks for confirmation of an irreversible action in the browser's own modal dialog. */
import { useCallback, useEffect, useRef, useState, type ReactElement } from 'react';
import type { Question } from '../components/question';

interface PendingQuestion {
  question: Question;
  answer: (yes: boolean) => void;
}

export function useConfirm(): [(question: Question) => Promise<boolean>, ReactElement | null] {
  const [asked, setAsked] = useState<PendingQuestion | null>(null);
  const dialog = useRef<HTMLDialogElement>(null);
  const ask = useCallback((question: Question) => new Promise<boolean>(answer => setAsked({ question, answer })), []);
  useEffect(() => {
    if (asked && !dialog.current?.open) {
      dialog.current?.showModal();
    }
  }, [asked]);
  const close = (yes: boolean) => {
    asked?.answer(yes);
    setAsked(null);
  };
  const element = asked && (
    <dialog ref={dialog} className="runai-Dialog" aria-labelledby="runai-question" onClose={() => close(false)}>
      <h2 id="runai-question">{asked.question.title}</h2>
      <p>{asked.question.body}</p>
      <div className="runai-Dialog-buttons">
        <button type="button" autoFocus onClick={() => close(false)}>
          {asked.question.no}
        </button>
        <button type="button" className="runai-Danger" onClick={() => close(true)}>
          {asked.question.yes}
        </button>
      </div>
    </dialog>
  );
  return [ask, element];
}
