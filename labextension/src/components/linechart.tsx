/**
 * A line chart of one value over steps or time, of one thing or of several. Pointer and arrow keys read out single
 * values; dragging over a part enlarges it, as do + and - around the value that is read.
 */
import { useId, useState, type KeyboardEvent, type PointerEvent, type ReactElement } from 'react';
import { metric } from '../model/format';
import { useTrans } from './hooks';

/** In order. `at` is a step, the number of a report, or a time. */
type Points = readonly { at: number; value: number }[];

export interface LineChartProps {
  name: string;
  /** At least one. */
  points: Points;
  /** How the line is called beside others. */
  line?: string;
  /** Further lines; they may be empty. */
  others?: readonly { id: string; name: string; points: Points }[];
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

const NONE: Points = [];

export function LineChart({
  name,
  points,
  line = name,
  others = [],
  place,
  written = metric,
  span,
  scale,
  gap
}: LineChartProps): ReactElement {
  const trans = useTrans();
  const id = useId();
  const [read, setRead] = useState<number | null>(null);
  const [zoom, setZoom] = useState<readonly [number, number] | null>(null);
  const [drag, setDrag] = useState<readonly [from: number, to: number] | null>(null);
  const all = others.reduce((found, other) => found.concat(other.points), NONE.concat(points));
  const places = all.map(point => point.at);
  const whole = span ?? ([Math.min(...places), Math.max(...places)] as const);
  const [first, last] = zoom ?? whole;
  const within = all.filter(({ at }) => first <= at && at <= last);
  const values = (within.length ? within : all).map(point => point.value);
  const [least, most] = scale ?? [Math.min(...values), Math.max(...values)];
  const x = (at: number) => (100 * (at - first)) / (last - first || 1);
  const y = (value: number) => 100 - (100 * (value - least)) / (most - least || 1);
  const shown = points[read ?? points.length - 1] ?? points.at(-1)!;

  const drawn = [{ id: '', name: line, points }, ...others];

  const placeOf = (event: PointerEvent<SVGSVGElement>) => {
    const box = event.currentTarget.getBoundingClientRect();
    return first + (Math.min(1, Math.max(0, (event.clientX - box.left) / box.width)) || 0) * (last - first);
  };
  const follow = (event: PointerEvent<SVGSVGElement>) => {
    const at = placeOf(event);
    setRead(nearest(points, at));
    setDrag(drag && [drag[0], at]);
  };
  const enlarge = (from: number, to: number) => {
    const part = [Math.max(whole[0], Math.min(from, to)), Math.min(whole[1], Math.max(from, to))] as const;
    if (part[1] - part[0] > (last - first) / 100) {
      setZoom(part[0] === whole[0] && part[1] === whole[1] ? null : part);
    }
  };
  /** Where a place is read, the value nearest to it; else the last one. */
  const valueAt = (found: Points, at: number | null) => {
    const point = at === null ? found.at(-1) : found[nearest(found, at)];
    return point ? written(point.value) : trans.__('not reported');
  };
  const step = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const width = { '+': 0.25, '=': 0.25, '-': 1 }[event.key];
    if (width) {
      event.preventDefault();
      enlarge(shown.at - width * (last - first), shown.at + width * (last - first));
    } else if (by) {
      event.preventDefault();
      setRead(Math.min(points.length - 1, Math.max(0, (read ?? points.length - 1) + by)));
    }
  };
  return (
    <figure className="runai-LineChart" aria-labelledby={id}>
      <figcaption id={id}>
        <span className="runai-Name">{name}</span>
        <output className="runai-Aside">{trans.__('%1 at %2', written(shown.value), place(shown.at))}</output>
        {zoom && (
          <button type="button" className="runai-Link" onClick={() => setZoom(null)}>
            {trans.__('Show all')}
          </button>
        )}
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
        aria-label={trans.__('%1 from %2 to %3', name, written(points[0]!.value), written(points.at(-1)!.value))}
        onPointerDown={event => {
          event.currentTarget.setPointerCapture?.(event.pointerId);
          setDrag([placeOf(event), placeOf(event)]);
        }}
        onPointerMove={follow}
        onPointerUp={() => {
          enlarge(...(drag ?? [0, 0]));
          setDrag(null);
        }}
        onPointerLeave={() => setRead(null)}
        onPointerCancel={() => setDrag(null)}
        onKeyDown={step}
        onBlur={() => setRead(null)}
      >
        {drawn.map((one, n) =>
          lines(one.points, gap).map(part => (
            <polyline
              key={`${one.id} ${part[0]!.at}`}
              data-line={n}
              points={part.map(point => `${x(point.at).toFixed(2)},${y(point.value).toFixed(2)}`).join(' ')}
            />
          ))
        )}
        {drag && <rect x={x(Math.min(...drag))} width={Math.abs(x(drag[0]) - x(drag[1]))} y="0" height="100" />}
        {read !== null && <line x1={x(shown.at)} x2={x(shown.at)} y1="0" y2="100" />}
      </svg>
      <div className="runai-LineChart-steps" aria-hidden="true">
        <span>{place(first)}</span>
        <span>{place(last)}</span>
      </div>
      {others.length > 0 && (
        <ul className="runai-LineChart-legend">
          {drawn.map((one, n) => (
            <li key={one.id}>
              <svg viewBox="0 0 24 8" aria-hidden="true">
                <polyline data-line={n} points="1,4 23,4" />
              </svg>
              <span className="runai-Name">{one.name}</span>
              <span className="runai-Aside">{valueAt(one.points, read === null ? null : shown.at)}</span>
            </li>
          ))}
        </ul>
      )}
    </figure>
  );
}

function nearest(points: Points, at: number): number {
  return points.reduce((best, point, n) => (Math.abs(point.at - at) < Math.abs(points[best]!.at - at) ? n : best), 0);
}

/** The points that are connected. A point that stands alone is a line of two, which is drawn as a dot. */
function lines(points: Points, gap = Infinity): Points[] {
  const found: Points[number][][] = [];
  points.forEach((point, at) => {
    if (at > 0 && point.at - points[at - 1]!.at <= gap) {
      found.at(-1)!.push(point);
    } else {
      found.push([point]);
    }
  });
  return found.map(line => (line.length > 1 ? line : [line[0]!, line[0]!]));
}
