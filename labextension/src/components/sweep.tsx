/**
 * The table of a sweep or a search when its kernel no longer keeps it up to date: after a reload of the page or a restart
 * of the kernel. Until then, and once it is complete, the table that the kernel has drawn is shown.
 */
import { useEffect, useMemo, useRef, useState, type ReactElement } from 'react';
import { metric as written, stateWord } from '../model/format';
import { bestBy, ended } from '../model/groups';
import { FACTS, followReports } from '../model/reports';
import { isFinal, type IPoolModel } from '../model/state';
import { usePool, useTrans } from './hooks';
import { useLatest } from './latest';

/** What the output of a sweep says: its array or, for a search, the driver, whose reports name the trials. */
export interface Sweep {
  readonly name: string;
  readonly jobs: readonly string[];
  readonly array?: string;
  readonly driver?: string;
  readonly planned: number;
  readonly ended: number;
  readonly metric: string | null;
  readonly sign: number;
}

/** In milliseconds: the kernel updates its table more often than this while it shows it. */
const SILENCE = 5000;

export interface SweepTableProps {
  sweep: Sweep;
  model: IPoolModel;
  actions: { openJob?(id: string): void };
  /** Called when the table takes the place of the kernel's, or gives it back. */
  onLive: (live: boolean) => void;
}

export function SweepTable({ sweep, model, actions, onLive }: SweepTableProps): ReactElement | null {
  const complete = sweep.ended >= sweep.planned;
  const [silent, setSilent] = useState(false);
  useEffect(() => {
    const timer = setTimeout(() => setSilent(true), SILENCE);
    return () => clearTimeout(timer);
  }, [sweep]);
  const live = silent && !complete;
  useEffect(() => onLive(live), [live, onLive]);
  return live ? <LiveTable sweep={sweep} model={model} actions={actions} /> : null;
}

function LiveTable({ sweep, model, actions }: Omit<SweepTableProps, 'onLive'>): ReactElement {
  const trans = useTrans();
  const state = usePool(model);
  const table = useRef<HTMLDivElement>(null);
  const ids = useTrials(sweep, model);
  const jobs = useMemo(() => ids.flatMap(id => state.jobs.get(id) ?? []), [ids, state.jobs]);
  const latest = useLatest(table, model.client, jobs);
  const { metric, sign } = sweep;
  const best = metric === null ? null : bestBy(jobs, latest, metric, sign);
  const parameters = [...new Set(jobs.flatMap(job => Object.keys(job.parameters)))];
  const told = jobs.flatMap(job => Object.keys(latest.get(job.id) ?? {}));
  const metrics = [...new Set(told)].filter(name => !FACTS.has(name));
  return (
    <div className="runai-Sweep jp-RenderedHTMLCommon" ref={table}>
      <p role="status">
        {[
          trans.__('%1: %2 of %3 done', sweep.name, ended(jobs), Math.max(sweep.planned, jobs.length)),
          best ? trans.__('best %1 %2', best.metric, written(best.value)) : ''
        ]
          .filter(Boolean)
          .join(' · ')}
      </p>
      <table>
        <thead>
          <tr>
            {[trans.__('Job'), ...parameters, trans.__('State'), ...metrics].map(title => (
              <th key={title} scope="col">
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {jobs.map(job => (
            <tr key={job.id} data-job={job.id} data-best={job === best?.job}>
              <th scope="row">
                <button type="button" className="runai-Link" onClick={() => actions.openJob?.(job.id)}>
                  {job.name}
                </button>
              </th>
              {parameters.map(name => (
                <td key={name}>{said(job.parameters[name])}</td>
              ))}
              <td>{stateWord(job.state, trans)}</td>
              {metrics.map(name => (
                <td key={name}>{said(latest.get(job.id)?.[name])}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The ids of its jobs, which are in the state once they have been read. */
function useTrials(sweep: Sweep, model: IPoolModel): readonly string[] {
  const [more, setMore] = useState<readonly string[]>([]);
  const { array, driver } = sweep;
  const known = usePool(model).jobs.get(driver ?? '');
  const ended = useRef(false);
  const over = !!known && isFinal(known.state);
  useEffect(() => {
    ended.current = over;
    model.client.written.ring(driver === undefined ? [] : [driver]);
  }, [model, driver, over]);
  useEffect(() => {
    if (driver === undefined) {
      return;
    }
    const abort = new AbortController();
    void model.follow(driver).catch(() => undefined);
    const show = (line: readonly Readonly<Record<string, unknown>>[]) =>
      setMore(line.flatMap(point => (typeof point['job'] === 'string' ? point['job'] : [])));
    void followReports(
      model.client,
      driver,
      () => ended.current,
      () => !document.hidden,
      show,
      abort.signal
    );
    return () => abort.abort();
  }, [model, driver]);
  const ids = useMemo(() => [...new Set([...sweep.jobs, ...more])], [sweep, more]);
  useEffect(() => {
    const read = async () => {
      if (array === undefined) {
        await Promise.allSettled(ids.map(id => model.follow(id))); // one that was deleted has no row
      } else {
        model.know(await model.client.array(array));
      }
    };
    read().catch(() => undefined);
  }, [ids, array, model]);
  return ids;
}

function said(value: unknown): string {
  return typeof value === 'number' ? written(value) : value === undefined || value === null ? '' : String(value);
}
