/** The forecast of the demand for GPUs against the capacity: last week, and next week with its range. */
import { useEffect, useId, useState, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { DemandForecast } from '../model/api';
import type { Client } from '../model/client';
import { amount, percent } from '../model/format';
import { niceCeiling } from './barchart';
import { Card } from './card';

const HOUR = 3600;

export function Forecast({ client }: { client: Client }): ReactElement {
  const trans = useTrans();
  const [found, setFound] = useState<DemandForecast | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  useEffect(() => {
    let gone = false;
    client.forecast().then(
      forecast => !gone && setFound(forecast),
      (error: Error) => !gone && setProblem(error.message)
    );
    return () => {
      gone = true;
    };
  }, [client]);
  return (
    <Card title={trans.__('Demand and capacity')}>
      {found && found.hours.length > 0 && <Chart forecast={found} />}
      {found && !found.hours.length && (
        <p className="runai-Empty">{trans.__('There is a forecast once jobs have been recorded for a week.')}</p>
      )}
      {!found && !problem && <p className="runai-Empty">{trans.__('Loading the forecast…')}</p>}
      {problem && (
        <p className="runai-Empty" role="alert">
          {problem}
        </p>
      )}
    </Card>
  );
}

function Chart({ forecast }: { forecast: DemandForecast }): ReactElement {
  const trans = useTrans();
  const id = useId();
  const { history, hours, capacity, start } = forecast;
  const count = history.length + hours.length;
  const top = niceCeiling(Math.max(capacity, ...history, ...hours.map(hour => hour.high)));
  const point = (hour: number, value: number) => `${(100 * hour) / (count - 1)},${100 - (100 * value) / top}`;
  const ahead = (value: (hour: DemandForecast['hours'][number]) => number) =>
    hours.map((hour, at) => point(history.length + at, value(hour)));
  const band = [...ahead(hour => hour.high), ...ahead(hour => hour.low).reverse()];
  const peak = Math.max(...hours.map(hour => hour.median));
  const over = hours.filter(hour => hour.median > capacity).length;
  const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', timeZone: 'UTC' });
  const days = [start - history.length * HOUR, start, start + hours.length * HOUR];
  return (
    <figure className="runai-Chart" aria-labelledby={id}>
      <div className="runai-Chart-scale" aria-hidden="true">
        {[top, top / 2, 0].map(value => (
          <span key={value}>{amount(value)}</span>
        ))}
      </div>
      <svg role="img" aria-labelledby={id} viewBox="0 0 100 100" preserveAspectRatio="none" className="runai-Forecast">
        {[0, 50, 100].map(at => (
          <line key={at} x1="0" x2="100" y1={at} y2={at} />
        ))}
        <polygon data-series="0" points={band.join(' ')} />
        <polyline data-series="0" points={history.map((value, at) => point(at, value)).join(' ')} />
        <polyline data-series="0" className="runai-Forecast-ahead" points={ahead(hour => hour.median).join(' ')} />
        <polyline data-series="4" points={`${point(0, capacity)} ${point(count - 1, capacity)}`} />
      </svg>
      <div className="runai-Chart-bars" aria-hidden="true">
        {days.map(at => (
          <span key={at}>{day.format(1000 * at)}</span>
        ))}
      </div>
      <figcaption id={id}>
        <i className="runai-Chart-key" data-series="0" />
        {trans.__(
          'GPUs that jobs hold or wait for: last week, and next week with its range (at most %1).',
          amount(peak)
        )}{' '}
        <i className="runai-Chart-key" data-series="4" />
        {trans.__('Capacity: %1.', amount(capacity))}{' '}
        {over > 0 && trans._n('More than that for %1 hour.', 'More than that for %1 hours.', over)}{' '}
        {forecast.mean_absolute_error === null
          ? trans.__('Its error is measured after two weeks of record.')
          : trans.__(
              'For last week, the forecast was wrong by %1 GPUs on average, and %2 of the hours were in its range.',
              amount(forecast.mean_absolute_error),
              percent(forecast.within_range ?? 0)
            )}
      </figcaption>
    </figure>
  );
}
