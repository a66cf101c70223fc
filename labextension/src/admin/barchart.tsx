/** Stacked bars, one per period. The table beside the chart has the figures, so the chart has a single description. */
import { useId, type ReactElement } from 'react';
import { amount } from '../model/format';

export interface Series {
  name: string;
  /** Which colour of the chart or of the pool (`build`, `train`) to use. */
  colour: string;
  /** One value per bar. */
  values: readonly number[];
}

export interface BarChartProps {
  label: string;
  bars: readonly string[];
  series: readonly Series[];
}

export function BarChart({ label, bars, series }: BarChartProps): ReactElement {
  const id = useId();
  const sums = bars.map((_, at) => series.reduce((sum, one) => sum + (one.values[at] ?? 0), 0));
  const top = niceCeiling(Math.max(...sums));
  const width = 100 / bars.length;
  const last = bars.length - 1;
  const named = [...new Set([0, Math.floor(last / 2), last])];
  return (
    <figure className="runai-Chart" aria-labelledby={id}>
      <div className="runai-Chart-scale" aria-hidden="true">
        {[top, top / 2, 0].map(value => (
          <span key={value}>{amount(value)}</span>
        ))}
      </div>
      <svg role="img" aria-labelledby={id}>
        {[0, 50, 100].map(at => (
          <line key={at} x1="0" x2="100%" y1={`${at}%`} y2={`${at}%`} />
        ))}
        {bars.map((bar, at) => (
          <g key={bar + at}>
            <title>{wordsOf(bar, sums[at]!, series, at)}</title>
            <rect className="runai-Chart-ground" x={`${at * width}%`} width={`${width}%`} y="0" height="100%" />
            {series.map((one, place) => {
              const below = series.slice(0, place).reduce((sum, other) => sum + (other.values[at] ?? 0), 0);
              const height = (100 * (one.values[at] ?? 0)) / top;
              return height > 0 ? (
                <rect
                  key={one.name}
                  data-series={one.colour}
                  x={`${(at + 0.1) * width}%`}
                  width={`${0.8 * width}%`}
                  y={`${100 - (100 * below) / top - height}%`}
                  height={`${height}%`}
                />
              ) : null;
            })}
          </g>
        ))}
      </svg>
      <div className="runai-Chart-bars" aria-hidden="true">
        {named.map(at => (
          <span key={at}>{bars[at]}</span>
        ))}
      </div>
      <figcaption id={id}>{label}</figcaption>
    </figure>
  );
}

function wordsOf(bar: string, sum: number, series: readonly Series[], at: number): string {
  const parts = series.filter(one => (one.values[at] ?? 0) > 0).map(one => `${one.name} ${amount(one.values[at]!)}`);
  return [`${bar}: ${amount(sum)}`, ...parts].join('\n');
}

/** The smallest of 1, 2, 5, 10, 20 … that is not less than the value. */
export function niceCeiling(value: number): number {
  if (!(value > 0)) {
    return 1;
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find(step => step * power >= value)!;
}
