import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, expect, it } from 'vitest';
import { Scheduler } from '../../__tests__/scheduler';
import type { DemandForecast } from '../../model/api';
import { Client } from '../../model/client';
import { Forecast } from '../forecast';

afterEach(cleanup);

const FORECAST: DemandForecast = {
  capacity: 8,
  start: 1_772_323_200,
  history: [4, 6],
  hours: [
    { low: 2, median: 4, high: 6 },
    { low: 8, median: 10, high: 20 },
    { low: 4, median: 5, high: 6 }
  ],
  weeks: 3,
  mean_absolute_error: 1.5,
  within_range: 0.75
};

function show(forecast: DemandForecast): HTMLElement {
  const scheduler = new Scheduler();
  scheduler.forecast = forecast;
  return render(<Forecast client={new Client(scheduler)} />).container;
}

it('draws last week, the forecast with its range, and the capacity', async () => {
  const container = show(FORECAST);
  await screen.findByRole('img', { name: /at most 10\).*Capacity: 8\. More than that for 1 hour\./ });
  expect(screen.getByText(/wrong by 1.5 GPUs on average, and 75% of the hours were in its range/)).toBeTruthy();
  const points = [...container.querySelectorAll('polyline')].map(line => line.getAttribute('points'));
  expect(points).toEqual(['0,80 25,70', '50,80 75,50 100,75', '0,60 100,60']);
  expect(container.querySelector('polygon')!.getAttribute('points')).toBe('50,70 75,0 100,70 100,80 75,60 50,90');
});

it('says when the record or the measurement is too short', async () => {
  show({ ...FORECAST, mean_absolute_error: null, within_range: null });
  await screen.findByText(/Its error is measured after two weeks of record\./);
  cleanup();
  show({ ...FORECAST, history: [], hours: [] });
  await screen.findByText('There is a forecast once jobs have been recorded for a week.');
});
