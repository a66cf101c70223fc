/** The metrics of a job, each in a chart, alone or beside those of other jobs. */
import { useEffect, useId, useMemo, useRef, useState, type ReactElement, type RefObject } from 'react';
import type { JobView } from '../model/api';
import type { Client } from '../model/client';
import { clock, metric, stateWord } from '../model/format';
import { followReports, metricPoints, type Point } from '../model/reports';
import { isFinal, type PoolState } from '../model/state';
import { useNow, useTrans } from './hooks';
import { isSeen, watchSeen } from './seen';
import { ActionIcon } from './icons';
import { ordered } from './jobs';
import { LineChart } from './linechart';

/** More lines in one chart cannot be told apart. */
const MOST = 4;

/** The number of jobs of each group that the list offers. */
const OFFERED = 200;

export interface MetricsProps {
  client: Client;
  job: JobView;
  line: readonly Point[];
  state: PoolState;
}

export function Metrics({ client, job, line, state }: MetricsProps): ReactElement {
  const trans = useTrans();
  const view = useRef<HTMLDivElement>(null);
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const offered = useOffered(client, job, state);
  const compared = chosen.flatMap(id => offered.find(other => other.id === id) ?? []);
  const lines = useLines(client, compared, view);
  const charts = metricPoints(line);
  if (!charts.length) {
    return (
      <div className="runai-Hint">
        {trans.__('The job has reported no metrics. Call job.report(step=…, loss=…) in its code to see them here.')}
      </div>
    );
  }
  return (
    <div ref={view}>
      <Compare
        job={job}
        offered={offered.filter(({ id }) => !chosen.includes(id))}
        compared={compared}
        choose={id => setChosen([...chosen, id])}
        leave={id => setChosen(chosen.filter(other => other !== id))}
      />
      <div className="runai-JobPage-charts">
        {charts.map(({ name, steps, points }) => (
          <LineChart
            key={name}
            name={name}
            points={points}
            line={job.name}
            others={compared.map(other => ({
              id: other.id,
              name: other.name,
              points:
                metricPoints(lines.get(other.id) ?? []).find(found => found.name === name && found.steps === steps)
                  ?.points ?? []
            }))}
            place={at => (steps ? trans.__('step %1', metric(at)) : trans.__('report %1', metric(at)))}
          />
        ))}
      </div>
    </div>
  );
}

interface CompareProps {
  job: JobView;
  offered: readonly JobView[];
  compared: readonly JobView[];
  choose: (id: string) => void;
  leave: (id: string) => void;
}

function Compare({ job, offered, compared, choose, leave }: CompareProps): ReactElement | null {
  const trans = useTrans();
  const now = useNow();
  const id = useId();
  if (!offered.length && !compared.length) {
    return null;
  }
  const inArray = (other: JobView) => job.array !== null && other.array === job.array;
  const groups: [string, readonly JobView[]][] = [
    [trans.__('The same array'), offered.filter(inArray).slice(0, OFFERED)],
    [trans.__('My jobs'), offered.filter(other => !inArray(other)).slice(0, OFFERED)]
  ];
  return (
    <div className="runai-Compare">
      <label htmlFor={id}>{trans.__('Compare with')}</label>
      <select
        id={id}
        value=""
        disabled={compared.length >= MOST || !offered.length}
        onChange={event => choose(event.target.value)}
      >
        <option value="">
          {compared.length < MOST ? trans.__('Choose a job…') : trans.__('%1 jobs at most', MOST)}
        </option>
        {groups
          .filter(([, jobs]) => jobs.length)
          .map(([label, jobs]) => (
            <optgroup key={label} label={label}>
              {jobs.map(other => (
                <option key={other.id} value={other.id}>
                  {`${other.name} · ${stateWord(other.state, trans)} · ${clock(other.submitted, now)}`}
                </option>
              ))}
            </optgroup>
          ))}
      </select>
      {compared.map(other => (
        <button
          key={other.id}
          type="button"
          className="runai-TextAction"
          aria-label={trans.__('Compare with %1 no longer', other.name)}
          onClick={() => leave(other.id)}
        >
          {other.name}
          <ActionIcon name="cancel" />
        </button>
      ))}
    </div>
  );
}

/** The jobs to compare with, which have run: those of the same array, and the newest ones of the user. */
function useOffered(client: Client, { id, array }: JobView, state: PoolState): readonly JobView[] {
  const [found, setFound] = useState<readonly JobView[]>([]);
  useEffect(() => {
    let current = true;
    const members = array === null ? [] : client.array(array);
    Promise.all([members, client.jobs({ mine: true, limit: 100 })]).then(
      ([ofArray, page]) => current && setFound([...ofArray, ...page.jobs]),
      () => undefined // those that are loaded remain
    );
    return () => {
      current = false;
    };
  }, [client, array]);
  return useMemo(() => {
    const latest = new Map([...found, ...state.jobs.values()].map(job => [job.id, job]));
    const jobs = [...latest.values()].filter(job => job.mine && job.id !== id && job.attempts.length > 0);
    return ordered(jobs).map(({ job }) => job);
  }, [found, state.jobs, id]);
}

/** The reports of several jobs, live while the element is visible. */
function useLines(
  client: Client,
  jobs: readonly JobView[],
  ref: RefObject<HTMLElement>
): ReadonlyMap<string, readonly Point[]> {
  const [lines, setLines] = useState<ReadonlyMap<string, readonly Point[]>>(new Map());
  const latest = useRef(jobs);
  const ids = jobs.map(job => job.id).join(' ');
  const ended = jobs.flatMap(job => (isFinal(job.state) ? job.id : [])).join(' ');
  useEffect(() => {
    latest.current = jobs;
  });
  useEffect(() => client.written.ring(ended.split(' ')), [client, ended]);
  useEffect(() => {
    const abort = new AbortController();
    const seen = () => isSeen(ref.current);
    const all = ids.split(' ').filter(Boolean);
    for (const id of all) {
      const ended = () => latest.current.some(job => job.id === id && isFinal(job.state));
      const show = (line: readonly Point[]) => setLines(before => new Map(before).set(id, line));
      void followReports(client, id, ended, seen, show, abort.signal);
    }
    const unwatch = watchSeen(ref.current, () => client.written.ring(all));
    return () => {
      abort.abort();
      unwatch();
    };
  }, [client, ids, ref]);
  return lines;
}
