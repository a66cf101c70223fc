/** The log of a job, live. It stays scrolled to the end unless the reader scrolls up. */
import { Fragment, memo, useEffect, useLayoutEffect, useRef, useState, type ReactElement } from 'react';
import { looks, PLAIN } from '../model/ansi';
import type { JobView } from '../model/api';
import type { Client } from '../model/client';
import { stamp } from '../model/format';
import { followLog, NO_LOG, textOf, type LogLine, type LogTail } from '../model/log';
import { isFinal } from '../model/state';
import { useTrans } from './hooks';

export interface LogViewProps {
  client: Client;
  job: JobView;
  /** The number of lines to show from the end; default: all that are kept. */
  most?: number;
  /** Default: the latest attempt. */
  attempt?: number;
  rank?: number;
  /** Only lines that contain this text. */
  search?: string;
  /** Whether to show when each line was written. */
  timed?: boolean;
}

export function LogView({
  client,
  job,
  most,
  rank = 0,
  search = '',
  timed = false,
  ...chosen
}: LogViewProps): ReactElement {
  const trans = useTrans();
  const attempt = chosen.attempt ?? job.attempts[job.attempts.length - 1]?.number;
  const tail = useLog(client, job, attempt, rank, timed);
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  const wanted = search.toLowerCase();
  const found = wanted ? tail.lines.filter(line => textOf(line).toLowerCase().includes(wanted)) : tail.lines;
  const lines = most === undefined ? found : found.slice(-most);

  useLayoutEffect(() => {
    if (box.current && atEnd.current) {
      box.current.scrollTop = box.current.scrollHeight;
    }
  }, [tail, search]);

  const empty = lines.every(line => textOf(line).trim() === '');
  return (
    <div className="runai-Log jp-RenderedText">
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
          {lines.map((line, at) => (
            <Line
              key={line.number}
              line={line}
              first={at === 0}
              search={search}
              time={timed ? tail.times.get(line.number) : undefined}
            />
          ))}
        </pre>
      )}
      {empty && !tail.problem && (
        <div className="runai-Hint">
          {wanted && tail.lines.length > 0
            ? trans.__('No line contains “%1”.', search)
            : nothing(job, tail, attempt, trans)}
        </div>
      )}
      {tail.problem && <div className="runai-Hint">{tail.problem}</div>}
    </div>
  );
}

interface LineProps {
  line: LogLine;
  first: boolean;
  search: string;
  time: number | undefined;
}

/** Only lines that changed are rendered again. The text of a job reaches the page as text, never as markup. */
const Line = memo(function Line({ line, first, search, time }: LineProps) {
  return (
    <>
      {!first && '\n'}
      {time !== undefined && (
        <time className="runai-Log-time" dateTime={new Date(time * 1000).toISOString()}>
          {stamp(time)}{' '}
        </time>
      )}
      {line.runs.map(({ text, style }, at) =>
        style === PLAIN ? (
          <Fragment key={at}>{marked(text, search)}</Fragment>
        ) : (
          <span key={at} {...looks(style)}>
            {marked(text, search)}
          </span>
        )
      )}
    </>
  );
});

function marked(text: string, search: string): string | (string | ReactElement)[] {
  if (!search) {
    return text;
  }
  const literally = search.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
  // With a group in the pattern, every second part is a match.
  return text
    .split(new RegExp(`(${literally})`, 'i'))
    .map((part, at) => (at % 2 ? <mark key={at}>{part}</mark> : part));
}

function nothing(job: JobView, tail: LogTail, attempt: number | undefined, trans: ReturnType<typeof useTrans>): string {
  if (attempt === undefined) {
    return isFinal(job.state)
      ? trans.__('The job never started, so there is not a log.')
      : trans.__('The log will appear when the job starts.');
  }
  return tail.complete ? trans.__('The job printed nothing.') : trans.__('No output yet.');
}

function useLog(client: Client, job: JobView, attempt: number | undefined, rank: number, timed: boolean): LogTail {
  const [tail, setTail] = useState(NO_LOG);
  const id = job.id;
  const ended = useRef(false);
  const over = isFinal(job.state) || job.attempts.some(one => one.number === attempt && one.ended !== null);
  useEffect(() => {
    ended.current = over;
    client.written.ring([id]);
  }, [client, id, over]);
  useEffect(() => {
    setTail(NO_LOG);
    if (attempt === undefined) {
      return;
    }
    const abort = new AbortController();
    void followLog(client, id, attempt, rank, () => ended.current, setTail, abort.signal, timed);
    return () => abort.abort();
  }, [client, id, attempt, rank, timed]);
  return tail;
}
