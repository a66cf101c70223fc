/** The GPUs of a node: what each reports now, what runs on it, and its history as a chart. */
import { useCallback, useEffect, useRef, useState, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import { LineChart } from '../components/linechart';
import type { GpuHistory, GpuMeasures, GpuPoint, GpuView, NodeView } from '../model/api';
import type { Client } from '../model/client';
import { amount, clock, gib, percent } from '../model/format';
import { isolationWords } from '../model/isolation';
import type { Trans } from '../trans';
import { niceCeiling } from './barchart';
import { Choice } from './choice';
import { occupantWords, slownessWords } from './grid';
import { LATEST, spanName, type Latest } from './spans';

const MEASURES = ['utilisation', 'used_memory_gib', 'power_watts', 'temperature'] as const;
type Measure = (typeof MEASURES)[number];

const POINTS = 240;

/** In milliseconds: how often the figures of GPUs may be news, and how often charts of long spans are. */
const NOW = 5_000;
const LATER = 60_000;

export function NodeGpus({ node, client }: { node: NodeView; client: Client }): ReactElement {
  const trans = useTrans();
  const [span, setSpan] = useState<Latest>('hour');
  const [measure, setMeasure] = useState<Measure>('utilisation');
  const read = useCallback(() => client.nodeGpus(node.name), [client, node.name]);
  const [found, problem] = useReading(read, node, NOW);
  const measured = found !== null && (found.measured || found.declared);
  const isolation = isolationWords(node.isolation, trans);
  return (
    <>
      {isolation && <p className="runai-Gpus-hint">{trans.__('GPU sharing: %1', isolation)}</p>}
      {measured && (
        <div className="runai-Find">
          <Choice
            label={trans.__('Show')}
            value={measure}
            values={MEASURES}
            name={one => measureName(one, trans)}
            set={setMeasure}
          />
          <Choice
            label={trans.__('Span')}
            value={span}
            values={Object.keys(LATEST) as Latest[]}
            name={one => spanName(one, trans)}
            set={setSpan}
          />
        </div>
      )}
      {found && !measured && (
        <p className="runai-Gpus-hint">
          {node.declared
            ? trans.__('These GPUs are declared: none were found on this machine, so their use is not measured.')
            : trans.__('The use of these GPUs is not measured.')}
        </p>
      )}
      {found?.declared && (
        <p className="runai-Gpus-hint">
          {trans.__('Declared load: these GPUs were not found, and the figures are what the pool file declares.')}
        </p>
      )}
      {problem && (
        <p className="runai-Gpus-hint" role="alert">
          {problem}
        </p>
      )}
      <ul className="runai-Gpus">
        {node.gpus.map(gpu => (
          <Gpu
            key={gpu.index}
            gpu={gpu}
            now={found?.gpus[gpu.index] ?? null}
            chart={measured && <History node={node.name} gpu={gpu} client={client} measure={measure} span={span} />}
          />
        ))}
      </ul>
    </>
  );
}

function Gpu({
  gpu,
  now,
  chart
}: {
  gpu: GpuView;
  now: GpuMeasures | null;
  chart: ReactElement | false;
}): ReactElement {
  const trans = useTrans();
  const slow = slownessWords(gpu, trans);
  const troubles = now ? troublesOf(now, trans) : '';
  return (
    <li aria-label={trans.__('GPU %1', gpu.index)}>
      <div className="runai-Gpus-head">
        <b>{trans.__('GPU %1', gpu.index)}</b>
        <span className="runai-Aside">{now && figuresOf(now, trans)}</span>
      </div>
      <div>{holdersOf(gpu, trans)}</div>
      {gpu.failure !== null && <div className="runai-Gpus-failure">{trans.__('Gets no work. %1', gpu.failure)}</div>}
      {slow && <div className="runai-Hint">{slow}</div>}
      {troubles && <div className="runai-Hint">{troubles}</div>}
      {chart}
    </li>
  );
}

interface HistoryProps {
  node: string;
  gpu: GpuView;
  client: Client;
  measure: Measure;
  span: Latest;
}

function History({ node, gpu, client, measure, span }: HistoryProps): ReactElement {
  const trans = useTrans();
  const { index } = gpu;
  const read = useCallback(
    () => client.gpuHistory(node, index, Math.floor(Date.now() / 1000) - LATEST[span], POINTS),
    [client, node, index, span]
  );
  const [history, problem] = useReading(read, gpu, span === 'hour' ? NOW : LATER);
  if (!history) {
    return (
      <div className="runai-Hint" role={problem ? 'alert' : undefined}>
        {problem ?? trans.__('Loading the history…')}
      </div>
    );
  }
  const points = history.points.flatMap(point => {
    const value = point[measure];
    return value === null ? [] : [{ at: point.start, value }];
  });
  const events = eventsOf(history, trans);
  return (
    <>
      {points.length > 0 ? (
        <LineChart
          name={measureName(measure, trans)}
          points={points}
          place={at => clock(at, history.until)}
          written={value => valueOf(measure, value, trans)}
          span={[history.since, history.until]}
          scale={[0, topOf(measure, gpu, points)]}
          gap={1.5 * history.step}
        />
      ) : (
        <div className="runai-Hint">{trans.__('Not measured in this time.')}</div>
      )}
      {events && <div className="runai-Hint">{events}</div>}
    </>
  );
}

/**
 * What is read, and why it could not be read the last time. It is read again when `news` changes, after `rest` at the
 * earliest, and every minute, while the page is visible.
 */
function useReading<T>(read: () => Promise<T>, news: unknown, rest: number): [found: T | null, problem: string | null] {
  const [found, setFound] = useState<T | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const latest = useRef<{ read: () => Promise<T>; at: number } | null>(null);
  useEffect(() => {
    const show = (next: T | null, error: string | null) => {
      if (latest.current?.read === read) {
        setFound(before => next ?? before);
        setProblem(error);
      }
    };
    const look = () => {
      timer = setTimeout(look, LATER);
      if (!document.hidden) {
        latest.current = { read, at: Date.now() };
        read().then(
          next => show(next, null),
          (error: Error) => show(null, error.message)
        );
      }
    };
    const rests = latest.current?.read === read ? latest.current.at + rest - Date.now() : 0;
    let timer = setTimeout(look, Math.max(0, rests));
    return () => clearTimeout(timer);
  }, [read, news, rest]);
  return [found, problem];
}

function holdersOf(gpu: GpuView, trans: Trans): string {
  const outside = gpu.failure === null && gpu.foreign > 0 ? [trans.__('used outside the pool')] : [];
  const holders = [...gpu.occupants.map(one => occupantWords(one, trans)), ...outside];
  return holders.join('; ') || (gpu.failure === null ? trans.__('free') : trans.__('nothing runs on it'));
}

/** `37% · 1 of 80 GiB · 250 W · 61 °C`, as far as it is measured. */
function figuresOf(now: GpuMeasures, trans: Trans): string {
  const memory =
    now.used_memory_gib !== null && now.memory_gib !== null
      ? trans.__('%1 of %2', amount(Math.round(10 * now.used_memory_gib) / 10), gib(now.memory_gib, trans))
      : null;
  const known = (measure: Measure) => (now[measure] === null ? null : valueOf(measure, now[measure], trans));
  return [known('utilisation'), memory, known('power_watts'), known('temperature')].filter(Boolean).join(' · ');
}

/** Why the GPU is slow now, the memory errors since its reset, and the processes that the pool does not know. */
function troublesOf(now: GpuMeasures, trans: Trans): string {
  const slowed = slowing(now.throttle_reasons, trans);
  const strangers = now.processes.filter(one => one.kind === null).length;
  return [
    slowed && trans.__('slowed down now: %1', slowed),
    errorsOf(now.corrected_errors ?? 0, now.uncorrected_errors ?? 0, trans),
    strangers && trans._n('%1 process outside the pool', '%1 processes outside the pool', strangers)
  ]
    .filter(Boolean)
    .join(' · ');
}

/** What happened to the GPU in a span: how long it was slow and why, and its errors. */
function eventsOf(history: GpuHistory, trans: Trans): string {
  const { points } = history;
  const sum = (of: (point: GpuPoint) => number) => points.reduce((total, point) => total + of(point), 0);
  const part = points.length ? sum(point => point.slowed ?? 0) / points.length : 0;
  const reasons = slowing([...new Set(points.flatMap(point => point.throttle_reasons))], trans);
  const xids = points.filter(point => point.xid).slice(-3);
  return [
    part > 0 && reasons && trans.__('slowed down %1 of the time: %2', percent(part), reasons),
    errorsOf(
      sum(point => point.corrected_errors),
      sum(point => point.uncorrected_errors),
      trans
    ),
    ...xids.map(({ xid, start }) => trans.__('Xid %1 at %2', xid ?? 0, clock(start, history.until)))
  ]
    .filter(Boolean)
    .join(' · ');
}

function errorsOf(corrected: number, uncorrected: number, trans: Trans): string {
  return [
    corrected && trans._n('%1 corrected memory error', '%1 corrected memory errors', corrected),
    uncorrected && trans._n('%1 uncorrectable memory error', '%1 uncorrectable memory errors', uncorrected)
  ]
    .filter(Boolean)
    .join(' · ');
}

/** The reasons that slow work down; the others are settings, or say that there is no work. */
function slowing(reasons: readonly string[], trans: Trans): string {
  const words: Record<string, string> = {
    power_cap: trans.__('power cap'),
    hardware_slowdown: trans.__('hardware slowdown'),
    thermal: trans.__('heat'),
    hardware_thermal: trans.__('heat (hardware)'),
    power_brake: trans.__('power brake')
  };
  return reasons.flatMap(reason => words[reason] ?? []).join(', ');
}

function topOf(measure: Measure, gpu: GpuView, points: readonly { value: number }[]): number {
  const most = Math.max(...points.map(point => point.value));
  const usual: Record<Measure, number> = {
    utilisation: 1,
    used_memory_gib: gpu.memory_gib ?? niceCeiling(most),
    power_watts: niceCeiling(most),
    temperature: 100
  };
  return Math.max(usual[measure], most);
}

function valueOf(measure: Measure, value: number, trans: Trans): string {
  switch (measure) {
    case 'utilisation':
      return percent(value);
    case 'used_memory_gib':
      return gib(value, trans);
    case 'power_watts':
      return trans.__('%1 W', Math.round(value));
    case 'temperature':
      return trans.__('%1 °C', Math.round(value));
  }
}

function measureName(measure: Measure, trans: Trans): string {
  const names: Record<Measure, string> = {
    utilisation: trans.__('Use'),
    used_memory_gib: trans.__('Memory'),
    power_watts: trans.__('Power'),
    temperature: trans.__('Temperature')
  };
  return names[measure];
}
