/** Usage by user, project or other groups over time: a chart, a table of totals, and a CSV file. */
import { useEffect, useState, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { UsageReport, UsageRow } from '../model/api';
import type { Client } from '../model/client';
import type { Dimension, UsageQuery } from '../model/requests';
import { amount, duration, percent } from '../model/format';
import type { Trans } from '../trans';
import { BarChart, type Series } from './barchart';
import { Card } from './card';
import { Choice } from './choice';
import { Forecast } from './forecast';
import { periodName, periodsOf, spanName, spanOf, SPANS, type Span } from './spans';
import { WhatIf } from './whatif';

const DIMENSIONS: readonly Dimension[] = ['project', 'user', 'gpu_type', 'environment'];
const MEASURES = ['gpu_hours', 'idle_gpu_hours', 'starts', 'reclaims', 'lost_gpu_hours'] as const;
type Measure = (typeof MEASURES)[number];

/** The number of groups with a colour of their own; the others share one. */
const COLOURS = 6;

interface Group extends Omit<UsageRow, 'start'> {
  name: string;
  values: Map<number, UsageRow>;
}

export function UsageView({ client, admin }: { client: Client; admin: boolean }): ReactElement {
  const trans = useTrans();
  const [span, setSpan] = useState<Span>('month');
  const [by, setBy] = useState<Dimension>('project');
  const [measure, setMeasure] = useState<Measure>('gpu_hours');
  const [round, setRound] = useState(0);
  const [found, setFound] = useState<{ query: UsageQuery; report: UsageReport } | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    let gone = false;
    const query = { ...spanOf(span, Date.now() / 1000), by };
    client.usage(query).then(
      report => {
        if (!gone) {
          setFound({ query, report });
          setProblem(null);
        }
      },
      (error: Error) => {
        if (!gone) {
          setProblem(error.message);
        }
      }
    );
    return () => {
      gone = true;
    };
  }, [client, span, by, round]);
  const download = () => {
    if (found) {
      client.usageTable(found.query).then(save, (error: Error) => setProblem(error.message));
    }
  };
  const groups = found ? groupsOf(found.report.rows, found.query.by, measure, trans) : [];
  return (
    <>
      <Card
        title={trans.__('Usage')}
        aside={
          <button type="button" className="runai-Link" disabled={!groups.length} onClick={download}>
            {trans.__('Download CSV')}
          </button>
        }
      >
        <div className="runai-Find">
          <Choice
            label={trans.__('Span')}
            value={span}
            values={SPANS}
            name={one => spanName(one, trans)}
            set={setSpan}
          />
          <Choice
            label={trans.__('By')}
            value={by}
            values={DIMENSIONS}
            name={one => dimensionName(one, trans)}
            set={setBy}
          />
          <Choice
            label={trans.__('Show')}
            value={measure}
            values={MEASURES}
            name={one => measureName(one, trans)}
            set={setMeasure}
          />
        </div>
        {found && groups.length > 0 && (
          <>
            <Chart query={found.query} groups={groups} measure={measure} />
            <UsageTable groups={groups} by={found.query.by} />
          </>
        )}
        {found && !groups.length && <p className="runai-Empty">{trans.__('Nothing was used in this time.')}</p>}
        {!found && !problem && <p className="runai-Empty">{trans.__('Loading what was used…')}</p>}
        {problem && (
          <p className="runai-Empty" role="alert">
            {problem}{' '}
            <button type="button" className="runai-Link" onClick={() => setRound(round + 1)}>
              {trans.__('Retry')}
            </button>
          </p>
        )}
      </Card>
      {admin && <Forecast client={client} />}
      {admin && <WhatIf client={client} />}
    </>
  );
}

interface ChartProps {
  query: UsageQuery;
  groups: readonly Group[];
  measure: Measure;
}

function Chart({ query, groups, measure }: ChartProps): ReactElement {
  const trans = useTrans();
  const periods = periodsOf(query);
  const own = groups.slice(0, groups.length > COLOURS ? COLOURS - 1 : COLOURS);
  const rest = groups.slice(own.length);
  const sum = (some: readonly Group[], start: number) =>
    some.reduce((total, group) => total + (group.values.get(start)?.[measure] ?? 0), 0);
  const series: Series[] = own.map((group, place) => ({
    name: group.name,
    colour: colourOf(group, place),
    values: periods.map(start => sum([group], start))
  }));
  if (rest.length) {
    series.push({ name: trans.__('others'), colour: 'rest', values: periods.map(start => sum(rest, start)) });
  }
  const total = groups.reduce((all, group) => all + group[measure], 0);
  return (
    <BarChart
      label={trans.__('%1: %2 (times are UTC)', measureName(measure, trans), amount(total))}
      bars={periods.map(start => periodName(start, query.every))}
      series={series}
    />
  );
}

function UsageTable({ groups, by }: { groups: readonly Group[]; by: Dimension }): ReactElement {
  const trans = useTrans();
  return (
    <div className="runai-TableBox">
      <table className="runai-Table">
        <thead>
          <tr>
            <th scope="col">{dimensionName(by, trans)}</th>
            <th scope="col">{trans.__('GPU-hours')}</th>
            <th scope="col">{trans.__('Idle')}</th>
            <th scope="col">{trans.__('Starts')}</th>
            <th scope="col">{trans.__('Mean wait')}</th>
            <th scope="col" className="runai-Wide">
              {trans.__('Longest')}
            </th>
            <th scope="col">{trans.__('Reclaims')}</th>
            <th scope="col" className="runai-Wide">
              {trans.__('Lost GPU-hours')}
            </th>
          </tr>
        </thead>
        <tbody>
          {groups.map((group, place) => (
            <tr key={group.name}>
              <th scope="row">
                <i
                  className="runai-Chart-key"
                  data-series={place < COLOURS - 1 || groups.length <= COLOURS ? colourOf(group, place) : 'rest'}
                />
                {group.name}
              </th>
              <td>{amount(group.gpu_hours)}</td>
              <td>{group.measured_gpu_hours > 0 ? percent(group.idle_gpu_hours / group.measured_gpu_hours) : '–'}</td>
              <td>{amount(group.starts)}</td>
              <td>{group.mean_wait === null ? '–' : duration(group.mean_wait, trans)}</td>
              <td className="runai-Wide">{group.starts ? duration(group.longest_wait, trans) : '–'}</td>
              <td>{amount(group.reclaims)}</td>
              <td className="runai-Wide">{amount(group.lost_gpu_hours)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The totals of each group over all periods, sorted by one measure, largest first. */
export function groupsOf(rows: readonly UsageRow[], by: Dimension, measure: Measure, trans: Trans): Group[] {
  const groups = new Map<string, Group>();
  for (const { start, ...row } of rows) {
    const key = row[by] ?? '';
    const group = groups.get(key) ?? { ...NOTHING, [by]: key, name: groupName(by, key, trans), values: new Map() };
    const starts = group.starts + row.starts;
    groups.set(key, {
      ...group,
      gpu_hours: group.gpu_hours + row.gpu_hours,
      measured_gpu_hours: group.measured_gpu_hours + row.measured_gpu_hours,
      idle_gpu_hours: group.idle_gpu_hours + row.idle_gpu_hours,
      starts,
      mean_wait: starts ? ((group.mean_wait ?? 0) * group.starts + (row.mean_wait ?? 0) * row.starts) / starts : null,
      longest_wait: Math.max(group.longest_wait, row.longest_wait),
      reclaims: group.reclaims + row.reclaims,
      lost_gpu_hours: group.lost_gpu_hours + row.lost_gpu_hours,
      values: group.values.set(start ?? 0, { start, ...row })
    });
  }
  return [...groups.values()].sort((a, b) => b[measure] - a[measure] || a.name.localeCompare(b.name));
}

const NOTHING: Omit<Group, 'name' | 'values'> = {
  environment: null,
  project: null,
  user: null,
  gpu_type: null,
  gpu_hours: 0,
  measured_gpu_hours: 0,
  idle_gpu_hours: 0,
  starts: 0,
  mean_wait: null,
  longest_wait: 0,
  reclaims: 0,
  lost_gpu_hours: 0
};

function groupName(by: Dimension, key: string, trans: Trans): string {
  const empty: Record<Dimension, string> = {
    project: trans.__('notebooks'),
    user: trans.__('others'),
    gpu_type: trans.__('unknown type'),
    environment: ''
  };
  return key || empty[by];
}

function colourOf(group: Group, place: number): string {
  return group.environment ?? String(place);
}

function dimensionName(by: Dimension, trans: Trans): string {
  const names: Record<Dimension, string> = {
    project: trans.__('Project'),
    user: trans.__('User'),
    gpu_type: trans.__('GPU type'),
    environment: trans.__('Build or train')
  };
  return names[by];
}

function measureName(measure: Measure, trans: Trans): string {
  const names: Record<Measure, string> = {
    gpu_hours: trans.__('GPU-hours'),
    idle_gpu_hours: trans.__('Idle GPU-hours'),
    starts: trans.__('Starts'),
    reclaims: trans.__('Reclaims'),
    lost_gpu_hours: trans.__('Lost GPU-hours')
  };
  return names[measure];
}

function save(table: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(table);
  link.download = 'usage.csv';
  link.click();
  URL.revokeObjectURL(link.href);
}
