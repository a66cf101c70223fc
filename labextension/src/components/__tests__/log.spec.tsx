/** The log of a job looks as JupyterLab shows the same text in an output area. */
import { Sanitizer } from '@jupyterlab/apputils';
import { renderText } from '@jupyterlab/rendermime';
import { cleanup, render, screen } from '@testing-library/react';
import { afterEach, expect, it } from 'vitest';
import { aJob, Scheduler } from '../../__tests__/scheduler';
import { Client } from '../../model/client';
import { LogView } from '../log';

afterEach(cleanup);

async function shown(text: string): Promise<HTMLElement> {
  const scheduler = new Scheduler();
  const attempt = { number: 1, ended: 2, workers: [] } as never;
  const job = aJob('a', { state: 'succeeded', attempts: [attempt] });
  scheduler.jobs.set('a', job);
  scheduler.logs.set('a', text);
  render(<LogView client={new Client(scheduler)} job={job} />);
  return screen.findByRole('log');
}

function coloured(element: Element): string[][] {
  return [...element.querySelectorAll('span')].map(span => [
    span.textContent!,
    span.className,
    span.style.color,
    span.style.backgroundColor
  ]);
}

it.each([
  ...['1', '5', '4', '7', '31', '1;31', '91', '41', '101', '7;31', '31;42', '7;31;42', '0', '3'],
  ...['1;22;31', '4;24;32', '7;27;33', '31;39;4', '41;49;4'],
  ...['38;5;1', '38;5;9', '38;5;16', '38;5;99', '38;5;231', '38;5;232', '48;5;255', '38;5;256', '38;2;1;2;3'],
  ...['48;2;255;0;9;1', '38;2;1;2;300', '38', '38;9', '7;38;5;20', '98', '1000']
])('has the colours of JupyterLab for the codes %s', async codes => {
  const source = `before \u001b[${codes}mtext\u001b[0m after`;
  const host = document.createElement('div');
  await renderText({ host, source, sanitizer: new Sanitizer() });
  const log = await shown(source);
  expect(log.textContent).toBe('before text after');
  expect(coloured(log)).toEqual(coloured(host));
});

it('shows markup as text', async () => {
  const log = await shown('\u001b[31m<img src=x onerror=alert(1)>\u001b[0m<b>bold</b>');
  expect(log.textContent).toBe('<img src=x onerror=alert(1)><b>bold</b>');
  expect(log.querySelector('img, b')).toBeNull();
});
