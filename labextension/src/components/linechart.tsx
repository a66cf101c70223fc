/** A line chart of one metric over the job's steps; pointer and arrow keys read out single values. */
import { useId, useState, type KeyboardEvent, type PointerEvent, type ReactElement } from 'react';
import { metric } from '../model/format';
import { useTrans } from './hooks';

export interface LineChartProps {
  name: string;
  /** In the order of the reports; `at` is the step or, without steps, the number of the report. */
  points: readonly { at: number; value: number }[];
  /** The unit of `at`. */
  unit: string;
}

export function LineChart({ name, points, unit }: LineChartProps): ReactElement {
  const trans = useTrans();
  const id = useId();
  const [read, setRead] = useState<number | null>(null);
  const values = points.map(point => point.value);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const [first, last] = [points[0]!.at, points.at(-1)!.at];
  const x = (at: number) => (100 * (at - first)) / (last - first || 1);
  const y = (value: number) => 100 - (100 * (value - least)) / (most - least || 1);
  const shown = points[read ?? points.length - 1] ?? points.at(-1)!;

  const follow = (event: PointerEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    const at = first + ((event.clientX - box.left) / box.width) * (last - first);
    setRead(nearest(points, at));
  };
  const step = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) {
      event.preventDefault();
      setRead(Math.min(points.length - 1, Math.max(0, (read ?? points.length - 1) + by)));
    }
  };
  return (
    <figure className="runai-LineChart" aria-labelledby={id}>
      <figcaption id={id}>
        <span className="runai-Name">{name}</span>
        <output className="runai-Aside">{trans.__('%1 at %2 %3', metric(shown.value), unit, metric(shown.at))}</output>
      </figcaption>
      <div className="runai-LineChart-scale" aria-hidden="true">
        <span>{metric(most)}</span>
        <span>{metric(least)}</span>
      </div>
      <svg
        viewBox="0 0 100 100"
        preserveAspectRatio="none"
        role="img"
        tabIndex={0}
        aria-label={trans.__('%1 from %2 to %3', name, metric(values[0]!), metric(values.at(-1)!))}
        onPointerMove={follow}
        onPointerLeave={() => setRead(null)}
        onKeyDown={step}
        onBlur={() => setRead(null)}
      >
        <polyline points={points.map(point => `${x(point.at).toFixed(2)},${y(point.value).toFixed(2)}`).join(' ')} />
        {read !== null && <line x1={x(shown.at)} x2={x(shown.at)} y1="0" y2="100" />}
      </svg>
      <div className="runai-LineChart-steps" aria-hidden="true">
        <span>{metric(first)}</span>
        <span>
          {unit} {metric(last)}
        </span>
      </div>
    </figure>
  );
}

function nearest(points: LineChartProps['points'], at: number): number {
  return points.reduce((best, point, n) => (Math.abs(point.at - at) < Math.abs(points[best]!.at - at) ? n : best), 0);
}
