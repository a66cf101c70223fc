/** Icons of states and actions. They differ in shape, so that colour is not needed to distinguish them. */
import type { ReactElement } from 'react';
import { stateWord } from '../model/format';
import type { JobState } from '../model/api';
import { useTrans } from './hooks';

const STATES: Record<JobState, ReactElement> = {
  queued: <circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" strokeWidth="2" />,
  starting: (
    <>
      <circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" strokeWidth="2" />
      <circle cx="8" cy="8" r="2" fill="currentColor" />
    </>
  ),
  running: (
    <path d="M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM6.5 5.2 11 8l-4.5 2.8z" fill="currentColor" fillRule="evenodd" />
  ),
  stopping: (
    <>
      <circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" strokeWidth="2" />
      <rect x="6" y="6" width="4" height="4" fill="currentColor" />
    </>
  ),
  paused: (
    <path
      d="M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM5.7 5.5h1.6v5H5.7zm3 0h1.6v5H8.7z"
      fill="currentColor"
      fillRule="evenodd"
    />
  ),
  succeeded: <path d="M6.6 12.2 2.8 8.4l1.3-1.3 2.5 2.5 5.3-5.3 1.3 1.3z" fill="currentColor" />,
  failed: (
    <path
      d="M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM5.9 4.8 8 6.9l2.1-2.1 1.1 1.1L9.1 8l2.1 2.1-1.1 1.1L8 9.1l-2.1 2.1-1.1-1.1L6.9 8 4.8 5.9z"
      fill="currentColor"
      fillRule="evenodd"
    />
  ),
  cancelled: (
    <>
      <circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" strokeWidth="2" />
      <path d="m4.6 11.4 6.8-6.8" stroke="currentColor" strokeWidth="2" />
    </>
  )
};

export function StateIcon({ state }: { state: JobState }): ReactElement {
  const word = stateWord(state, useTrans());
  return (
    <svg className="runai-StateIcon" data-state={state} viewBox="0 0 16 16" role="img" aria-label={word}>
      <title>{word}</title>
      {STATES[state]}
    </svg>
  );
}

export type ActionName =
  | 'open'
  | 'copy'
  | 'log'
  | 'files'
  | 'pause'
  | 'resume'
  | 'run'
  | 'cancel'
  | 'delete'
  | 'filter'
  | 'add'
  | 'priority'
  | 'load';

const ACTIONS: Record<ActionName, string> = {
  load: 'M7.2 2h1.6v6.3l2.3-2.3 1.1 1.1L8 11.3 3.8 7.1 4.9 6l2.3 2.3zM2.5 12.4h11V14h-11z',
  open: 'M9 2h5v5h-1.6V4.7L7.6 9.5 6.5 8.4l4.8-4.8H9zM2 3.5h4.5v1.6H3.6v7.3h7.3V9.5h1.6V14H2z',
  copy: 'M5 1.5h8.5V11h-2v3.5H3V5h2zm1.6 1.6v1.9h4.9v4.4h.4V3.1zM4.6 6.6v6.3h5.3V6.6z',
  log: 'M2 3h12v1.6H2zm0 3.1h9v1.6H2zm0 3.1h12v1.6H2zm0 3.1h6v1.6H2z',
  files: 'M3 1.5h6l4 4v9H3zm1.5 1.5v10h7V6.2H8.3V3z',
  pause: 'M4 3h3v10H4zm5 0h3v10H9z',
  resume: 'M4 2.8 13 8l-9 5.2z',
  run: 'M3 2.8 10 8l-7 5.2zM11 3h2v10h-2z',
  cancel: 'M8 6.7 12 2.7 13.3 4l-4 4 4 4-1.3 1.3-4-4-4 4L2.7 12l4-4-4-4L4 2.7z',
  delete: 'M6 1.5h4l.7 1.3H14v1.5H2V2.8h3.3zM3 5.3h10l-.7 9.2H3.7zm2.9 1.5.3 6.2h1.2l-.3-6.2zm3 0L8.6 13h1.2l.3-6.2z',
  priority: 'M8 1.5 14 7.5l-1.2 1.2L8 4l-4.8 4.7L2 7.5zm0 6 6 6-1.2 1.2L8 10l-4.8 4.7L2 13.5z',
  add: 'M7.2 2.5h1.6v4.7h4.7v1.6H8.8v4.7H7.2V8.8H2.5V7.2h4.7z',
  filter:
    'M6.7 2a4.7 4.7 0 1 0 2.8 8.5l3.3 3.3 1.1-1.1-3.3-3.3A4.7 4.7 0 0 0 6.7 2zm0 1.6a3.1 3.1 0 1 1 0 6.2 3.1 3.1 0 0 1 0-6.2z'
};

export function ActionIcon({ name }: { name: ActionName }): ReactElement {
  return (
    <svg className="runai-ActionIcon" viewBox="0 0 16 16" aria-hidden="true">
      <path d={ACTIONS[name]} fill="currentColor" />
    </svg>
  );
}
