/** A line chart of one value over steps or time; pointer and arrow keys read out single values. */
import { useId, useState, type KeyboardEvent, type PointerEvent, type ReactElement } from 'react';
import { metric } from '../model/format';
import { useTrans } from './hooks';

export interface LineChartProps {
  name: string;
  /** In order; at least one. `at` is a step, the number of a report, or a time. */
  points: readonly { at: number; value: number }[];
  /** How a place on the axis is written. */
  place: (at: number) => string;
  /** How a value is written. */
  written?: (value: number) => string;
  /** The ends of the axis; without them, those of the points. */
  span?: readonly [first: number, last: number];
  /** The ends of the scale; without them, those of the values. */
  scale?: readonly [least: number, most: number];
  /** Points that are further apart are not connected. */
  gap?: number;
}

export function LineChart({ name, points, place, written = metric, span, scale, gap }: LineChartProps): ReactElement {
  const trans = useTrans();
  const id = useId();
  const [read, setRead] = useState<number | null>(null);
  const values = points.map(point => point.value);
  const [least, most] = scale ?? [Math.min(...values), Math.max(...values)];
  const [first, last] = span ?? [points[0]!.at, points.at(-1)!.at];
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
        <output className="runai-Aside">{trans.__('%1 at %2', written(shown.value), place(shown.at))}</output>
      </figcaption>
      <div className="runai-LineChart-scale" aria-hidden="true">
        <span>{written(most)}</span>
        <span>{written(least)}</span>
      </div>
      <svg
        viewBox="0 0 100 100"
        preserveAspectRatio="none"
        role="img"
        tabIndex={0}
        aria-label={trans.__('%1 from %2 to %3', name, written(values[0]!), written(values.at(-1)!))}
        onPointerMove={follow}
        onPointerLeave={() => setRead(null)}
        onKeyDown={step}
        onBlur={() => setRead(null)}
      >
        {lines(points, gap).map(line => (
          <polyline
            key={line[0]!.at}
            points={line.map(point => `${x(point.at).toFixed(2)},${y(point.value).toFixed(2)}`).join(' ')}
          />
        ))}
        {read !== null && <line x1={x(shown.at)} x2={x(shown.at)} y1="0" y2="100" />}
      </svg>
      <div className="runai-LineChart-steps" aria-hidden="true">
        <span>{place(first)}</span>
        <span>{place(last)}</span>
      </div>
    </figure>
  );
}

function nearest(points: LineChartProps['points'], at: number): number {
  return points.reduce((best, point, n) => (Math.abs(point.at - at) < Math.abs(points[best]!.at - at) ? n : best), 0);
}

/** The points that are connected. A point that stands alone is a line of two, which is drawn as a dot. */
function lines(points: LineChartProps['points'], gap = Infinity): LineChartProps['points'][] {
  const found: LineChartProps['points'][number][][] = [];
  points.forEach((point, at) => {
    if (at > 0 && point.at - points[at - 1]!.at <= gap) {
      found.at(-1)!.push(point);
    } else {
      found.push([point]);
    }
  });
  return found.map(line => (line.length > 1 ? line : [line[0]!, line[0]!]));
}
