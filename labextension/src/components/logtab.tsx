/** The logs of a job: one per worker and attempt, live, searchable and downloadable. */
import { useId, useState, type ReactElement } from 'react';
import type { JobView } from '../model/api';
import type { Client } from '../model/client';
import { useTrans } from './hooks';
import { LogView } from './log';

export interface LogTabProps {
  client: Client;
  job: JobView;
  /** Saves a file through the browser. */
  save: (name: string, content: Blob) => void;
}

/** Where this browser remembers whether logs are shown with timestamps. */
const TIMED = 'jupyter-runai:log-timestamps';

export function LogTab({ client, job, save }: LogTabProps): ReactElement {
  const trans = useTrans();
  const [chosen, setChosen] = useState<number | null>(null); // null: always the latest attempt
  const [rank, setRank] = useState(0);
  const [search, setSearch] = useState('');
  const [timed, setTimed] = useState(() => localStorage.getItem(TIMED) === 'true');
  const [problem, setProblem] = useState<string | null>(null);
  const attempt = job.attempts.find(one => one.number === chosen) ?? job.attempts.at(-1);
  const ranks = [...(attempt?.workers ?? [])].map(worker => worker.rank).sort((a, b) => a - b);
  const shown = ranks.includes(rank) ? rank : 0;
  const download = async () => {
    setProblem(null);
    try {
      save(`${job.name}-${attempt!.number}-${shown}.log`, await client.wholeLog(job.id, attempt!.number, shown));
    } catch (error) {
      setProblem((error as Error).message);
    }
  };
  return (
    <div className="runai-LogTab">
      <div className="runai-LogTab-head">
        <Choice
          label={trans.__('Attempt')}
          value={attempt?.number ?? 0}
          values={job.attempts.map(one => one.number)}
          choose={number => setChosen(number === job.attempts.at(-1)?.number ? null : number)}
        />
        <Choice label={trans.__('Rank')} value={shown} values={ranks} choose={setRank} />
        <input
          type="search"
          className="runai-LogTab-search"
          placeholder={trans.__('Find in the log')}
          aria-label={trans.__('Find in the log')}
          value={search}
          onChange={event => setSearch(event.target.value)}
        />
        <label>
          <input
            type="checkbox"
            checked={timed}
            onChange={event => {
              setTimed(event.target.checked);
              localStorage.setItem(TIMED, String(event.target.checked));
            }}
          />{' '}
          {trans.__('Timestamps')}
        </label>
        <button type="button" className="runai-TextAction" disabled={!attempt} onClick={() => void download()}>
          {trans.__('Download')}
        </button>
      </div>
      {problem && (
        <div className="runai-Hint" role="alert">
          {problem}
        </div>
      )}
      <LogView
        client={client}
        job={job}
        rank={shown}
        search={search}
        timed={timed}
        {...(attempt ? { attempt: attempt.number } : {})}
      />
    </div>
  );
}

interface ChoiceProps {
  label: string;
  value: number;
  values: readonly number[];
  choose: (value: number) => void;
}

/** Renders nothing if there is no choice. */
function Choice({ label, value, values, choose }: ChoiceProps): ReactElement | null {
  const id = useId();
  return values.length < 2 ? null : (
    <>
      <label htmlFor={id}>{label}</label>
      <select id={id} value={value} onChange={event => choose(Number(event.target.value))}>
        {values.map(one => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </>
  );
}
