/** What if the pool had more GPUs, or other guarantees: a form, and the recorded jobs simulated with and without it. */
import { useEffect, useId, useRef, useState, type FormEvent, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { OutcomeView, SideView, WhatIfReport } from '../model/api';
import type { Client } from '../model/client';
import { amount, duration, percent } from '../model/format';
import type { Trans } from '../trans';
import { Card } from './card';
import { Choice } from './choice';
import { Guarantees, type Guarantee } from './guarantees';
import { spanName, spanOf, type Span } from './spans';

const RECORDED = ['week', 'month', 'this-month', 'last-month'] as const satisfies readonly Span[];
type RecordedSpan = (typeof RECORDED)[number];

export function WhatIf({ client }: { client: Client }): ReactElement {
  const trans = useTrans();
  const id = useId();
  const [projects, setProjects] = useState<string[]>([]);
  const [span, setSpan] = useState<RecordedSpan>('month');
  const [gpus, setGpus] = useState('');
  const [guarantees, setGuarantees] = useState<readonly Guarantee[]>([]);
  const [report, setReport] = useState<WhatIfReport | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [running, setRunning] = useState(false);
  const abort = useRef<AbortController | null>(null);
  useEffect(() => {
    let gone = false;
    client.projects().then(
      found => !gone && setProjects(found.map(one => one.name)),
      () => undefined // the form works without guarantees, and the card above says what is wrong
    );
    return () => {
      gone = true;
      abort.current?.abort();
    };
  }, [client]);
  const simulate = (event: FormEvent) => {
    event.preventDefault();
    const wrong = problemOf(gpus, guarantees, trans);
    setProblem(wrong);
    if (wrong !== null) {
      return;
    }
    const { since, until } = spanOf(span, Date.now() / 1000);
    const guaranteed = Object.fromEntries(guarantees.map(([project, promised]) => [project, Number(promised)]));
    const change = { since, until, gpus: Number(gpus), guaranteed };
    const control = (abort.current = new AbortController());
    setRunning(true);
    client
      .whatIf(change, control.signal)
      .then(setReport, (error: Error) => !control.signal.aborted && setProblem(error.message))
      .finally(() => setRunning(false));
  };
  return (
    <Card title={trans.__('What if?')}>
      <form className="runai-WhatIf" onSubmit={simulate}>
        <div className="runai-Editor-fields">
          <div className="runai-Editor-field">
            <label htmlFor={`${id}-span`}>{trans.__('Recorded jobs')}</label>
            <Choice id={`${id}-span`} value={span} values={RECORDED} name={one => spanName(one, trans)} set={setSpan} />
          </div>
          <div className="runai-Editor-field">
            <label htmlFor={`${id}-gpus`}>{trans.__('More GPUs')}</label>
            <input
              id={`${id}-gpus`}
              inputMode="numeric"
              placeholder="0"
              value={gpus}
              onChange={event => setGpus(event.target.value)}
            />
          </div>
        </div>
        <Guarantees projects={projects} value={guarantees} set={setGuarantees} />
        <div className="runai-WhatIf-buttons">
          <button type="submit" className="runai-Button runai-Primary" disabled={running}>
            {trans.__('Simulate')}
          </button>
          {running && (
            <>
              <progress aria-label={trans.__('Simulating')} />
              <button type="button" className="runai-Link" onClick={() => abort.current?.abort()}>
                {trans.__('Cancel')}
              </button>
            </>
          )}
          {problem && (
            <span className="runai-Editor-problem" role="alert">
              {problem}
            </span>
          )}
        </div>
      </form>
      <div aria-live="polite">{report && <Result report={report} />}</div>
    </Card>
  );
}

function problemOf(gpus: string, guarantees: readonly Guarantee[], trans: Trans): string | null {
  const more = Number(gpus);
  if (!(Number.isInteger(more) && more >= 0)) {
    return trans.__('Enter a whole number of GPUs to add, such as 8.');
  }
  const missing = guarantees.find(
    ([, typed]) => typed.trim() === '' || !(Number(typed) >= 0 && isFinite(Number(typed)))
  );
  if (missing) {
    return trans.__('Enter the GPUs that %1 would be guaranteed, such as 8.', missing[0]);
  }
  return more > 0 || guarantees.length > 0 ? null : trans.__('Enter a number of GPUs to add, or choose a project.');
}

function Result({ report }: { report: WhatIfReport }): ReactElement {
  const trans = useTrans();
  const sides = [report.recorded, report.unchanged, report.changed];
  const totals = sides.map(side => side.total).filter(total => total !== null);
  const heads = [trans.__('Recorded'), trans.__('Now'), trans.__('What if')];
  const row = (name: string, cell: (side: SideView) => string) => (
    <tr key={name}>
      <th scope="row">{name}</th>
      {sides.map((side, place) => (
        <td key={place}>{cell(side)}</td>
      ))}
    </tr>
  );
  const time = (key: 'mean_wait' | 'median_wait' | 'p95_wait' | 'mean_completion') => (side: SideView) =>
    side.total ? duration(side.total[key], trans) : '–';
  const projects = Object.keys(report.recorded.by_project);
  const waits = projects.flatMap(name => sides.map(side => side.by_project[name]!.mean_wait));
  const longest = Math.max(1, ...waits);
  return (
    <>
      <div className="runai-TableBox">
        <table className="runai-Table" aria-label={trans.__('All projects')}>
          <thead>
            <tr>
              <th scope="col">{trans._n('%1 job', '%1 jobs', totals[0]?.jobs ?? 0)}</th>
              {heads.map(head => (
                <th key={head} scope="col">
                  {head}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {row(trans.__('GPUs'), side => amount(side.gpus))}
            {row(trans.__('GPU use'), side => percent(side.use))}
            {row(trans.__('Mean wait'), time('mean_wait'))}
            {row(trans.__('Median wait'), time('median_wait'))}
            {row(trans.__('95th percentile of waits'), time('p95_wait'))}
            {row(trans.__('Mean completion'), time('mean_completion'))}
            {row(trans.__('Stops'), side => (side.total ? amount(side.total.stops) : '–'))}
            {sides.some(side => side.never_started > 0) &&
              row(trans.__('Never started'), side => amount(side.never_started))}
          </tbody>
        </table>
      </div>
      {projects.length > 0 && (
        <div className="runai-TableBox">
          <table className="runai-Table" aria-label={trans.__('Mean wait by project')}>
            <thead>
              <tr>
                <th scope="col">{trans.__('Mean wait by project')}</th>
                <td className="runai-Table-bar" />
                {heads.map((head, place) => (
                  <th key={head} scope="col">
                    {place > 0 && <i className="runai-Chart-key" data-series={COLOURS[place]} />}
                    {head}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {projects.map(name => {
                const outcomes = sides.map(side => side.by_project[name]!);
                return (
                  <tr key={name}>
                    <th scope="row">{name}</th>
                    <td className="runai-Table-bar">
                      <Bars outcomes={outcomes} longest={longest} />
                    </td>
                    {outcomes.map((outcome, place) => (
                      <td key={place}>{duration(outcome.mean_wait, trans)}</td>
                    ))}
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
      )}
      <p className="runai-WhatIf-notes">{notesOf(report, trans).join(' ')}</p>
    </>
  );
}

/** The colours of what is recorded, now, and changed; the record has no bar. */
const COLOURS = ['', 'rest', '0'] as const;

/** The mean waits with and without the change; the cells beside them have the figures. */
function Bars({ outcomes, longest }: { outcomes: readonly OutcomeView[]; longest: number }): ReactElement {
  return (
    <svg className="runai-WhatIf-bars" aria-hidden="true">
      {[1, 2].map(place => (
        <rect
          key={place}
          data-series={COLOURS[place]}
          y={place === 1 ? 1 : 9}
          height="6"
          rx="1"
          width={`${(100 * outcomes[place]!.mean_wait) / longest}%`}
        />
      ))}
    </svg>
  );
}

/** What the record does not contain. */
function notesOf(report: WhatIfReport, trans: Trans): string[] {
  const notes = [
    report.never_ran &&
      trans._n('%1 job never ran and is left out.', '%1 jobs never ran and are left out.', report.never_ran),
    report.gone &&
      trans._n(
        '%1 job is left out because its project or node pool is gone.',
        '%1 jobs are left out because their project or node pool is gone.',
        report.gone
      ),
    report.unfinished &&
      trans._n(
        '%1 job had not ended; it counts as ended.',
        '%1 jobs had not ended; they count as ended.',
        report.unfinished
      ),
    trans.__('“Now” and “What if” are simulated on today’s pool, so compare “Recorded” and “Now” first.'),
    trans.__('The time in which a job held GPUs counts as its work; notebooks and lent GPUs are not simulated.')
  ];
  return notes.filter(note => typeof note === 'string');
}
