/** The log of a job's latest attempt as it grows; it stays at the end unless the reader scrolls up. */
import { useEffect, useLayoutEffect, useRef, useState, type ReactElement } from 'react';
import type { JobView } from '../model/api';
import type { Client } from '../model/client';
import { followLog, NO_LOG, type LogTail } from '../model/log';
import { isFinal } from '../model/state';
import { useTrans } from './hooks';

export interface LogViewProps {
  client: Client;
  job: JobView;
  /** So many lines at the end; absent: all that are kept. */
  most?: number;
}

export function LogView({ client, job, most }: LogViewProps): ReactElement {
  const trans = useTrans();
  const attempt = job.attempts[job.attempts.length - 1]?.number;
  const tail = useLog(client, job, attempt);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const lines = most === undefined ? tail.lines : tail.lines.slice(-most);
  const text = lines.join('\n');

  useLayoutEffect(() => {
    if (box.current && atEnd.current) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  }, [text]);

  const empty = text.trim() === '';
  return (
    <div className="runai-Log">
      {!empty && (
        <pre
          ref={box}
          className="runai-Log-text"
          tabIndex={0}
          role="log"
          aria-label={trans.__('Log of %1', job.name)}
          onScroll={event => {
            const { scrollHeight, scrollTop, clientHeight } = event.currentTarget;
            atEnd.current = scrollHeight - scrollTop - clientHeight < 8;
          }}
        >
          {tail.shortened && most === undefined && trans.__('… earlier output is not shown\n')}
          {text}
        </pre>
      )}
      {empty && !tail.problem && <div className="runai-Hint">{nothing(job, tail, attempt, trans)}</div>}
      {tail.problem && <div className="runai-Hint">{tail.problem}</div>}
    </div>
  );
}

function nothing(job: JobView, tail: LogTail, attempt: number | undefined, trans: ReturnType<typeof useTrans>): string {
  if (attempt === undefined) {
    return isFinal(job.state)
      ? trans.__('The job never started, so there is not a log.')
      : trans.__('The log will appear when the job starts.');
  }
  return tail.complete ? trans.__('The job printed nothing.') : trans.__('No output yet.');
}

function useLog(client: Client, job: JobView, attempt: number | undefined): LogTail {
  const [tail, setTail] = useState(NO_LOG);
  const latest = useRef(job);
  useEffect(() => {
    latest.current = job;
  });
  const id = job.id;
  useEffect(() => {
    setTail(NO_LOG);
    if (attempt === undefined) {
      return;
    }
    const abort = new AbortController();
    const ended = () =>
      isFinal(latest.current.state) ||
      latest.current.attempts.some(one => one.number === attempt && one.ended !== null);
    void followLog(client, id, attempt, ended, setTail, abort.signal);
    return () => abort.abort();
  }, [client, id, attempt]);
  return tail;
}
