import { act, cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { aJob, aProject, Scheduler } from '../../__tests__/scheduler';
import type { EffectView } from '../../model/api';
import { PoolModel } from '../../model/pool';
import { plain } from '../../trans';
import { entryOf, fieldsOf, guaranteeSumOf, InvalidField } from '../draft';
import { PoolPage } from '../page';
import { effectWords } from '../preview';

beforeEach(() => {
  location.hash = '#projects';
});

afterEach(() => {
  cleanup();
  location.hash = '';
});

describe('the fields of a project', () => {
  const project = aProject('vision', { parent: 'research', guaranteed: 2.5, limit: 4, members: ['ada', 'ben'] });

  it('show the values of the project', () => {
    const entry = entryOf(fieldsOf(project), project, plain);
    for (const [key, value] of Object.entries(entry)) {
      expect([key, value]).toEqual([key, project[key as keyof typeof project]]);
    }
  });

  it('describe a new project without a guarantee', () => {
    const entry = entryOf({ ...fieldsOf(null), name: ' nlp ', members: 'ada,  ben ada' }, null, plain);
    expect(entry).toMatchObject({ name: 'nlp', guaranteed: 0, limit: null, members: ['ada', 'ben'] });
  });

  it.each(['four', '-1', '1e999'])('reject %j as a number of GPUs', limit => {
    expect(() => entryOf({ ...fieldsOf(project), limit }, project, plain)).toThrow(InvalidField);
  });
});

describe('the sum of guarantees', () => {
  const { pool } = new Scheduler();
  const projects = [
    aProject('research', { guaranteed: 4 }),
    aProject('vision', { guaranteed: 2, parent: 'research' }),
    aProject('speech', { guaranteed: 1 })
  ];

  it.each<[string, string, string | null, string, boolean]>([
    ['39', '', null, '44 of 6 GPUs guaranteed', true],
    ['1', '', null, '6 of 6 GPUs guaranteed', false],
    ['2', '', 'speech', '6 of 6 GPUs guaranteed', false],
    ['', '', 'speech', 'any number of 6 GPUs guaranteed', true],
    ['3', 'research', null, '5 of the 4 GPUs of research guaranteed', true]
  ])('sums a guarantee of %j below %j', (guaranteed, parent, own, words, over) => {
    const fields = { ...fieldsOf(null), guaranteed, parent };
    expect(guaranteeSumOf(fields, own, projects, pool, plain)).toEqual({ words, over });
  });
});

describe('the text of an effect', () => {
  const effect: EffectView = { action: 'stop', project: 'nlp', jobs: 2, gpus: 4, ids: ['a', 'b'] };

  it('counts the jobs and their GPUs', () => {
    expect(effectWords(effect, plain)).toBe('2 jobs of nlp (4 GPUs) would stop and queue again:');
  });
});

describe('a project on the page', () => {
  async function page(admin = true): Promise<[Scheduler, PoolModel]> {
    const scheduler = new Scheduler();
    scheduler.me = { ...scheduler.me, name: 'root', admin };
    scheduler.jobs.set('a', aJob('a', { state: 'running' }));
    scheduler.previewed = {
      preview: true,
      changes: [{ action: 'change', kind: 'project', name: 'vision', before: { limit: null }, after: { limit: 3 } }],
      warnings: ['Not all guarantees can be met.'],
      effects: [{ action: 'stop', project: 'vision', jobs: 1, gpus: 1, ids: ['a'] }]
    };
    const model = new PoolModel(scheduler, { gather: 1, figures: 1 }, true);
    render(<PoolPage model={model} />);
    await act(async () => model.start());
    await screen.findByRole('region', { name: 'Projects' });
    return [scheduler, model];
  }

  async function edit(): Promise<void> {
    fireEvent.click(screen.getByRole('button', { name: 'Edit vision' }));
    await screen.findByLabelText('Limit (GPUs)');
  }

  const type = (label: string, value: string) => fireEvent.change(screen.getByLabelText(label), { target: { value } });

  it('is changed after a preview that names the affected jobs', async () => {
    const [scheduler, model] = await page();
    await edit();
    type('Limit (GPUs)', '3');
    fireEvent.click(screen.getByText('Review the change'));
    await screen.findByText('vision: limit none → 3');
    expect(screen.getByText('job-a (ada)')).toBeTruthy();
    expect(screen.getByText('Not all guarantees can be met.')).toBeTruthy();
    expect(scheduler.projects[0]!.limit).toBeNull();
    fireEvent.click(screen.getByText('Apply'));
    await waitFor(() => expect(scheduler.projects[0]!.limit).toBe(3));
    await waitFor(() => expect(screen.queryByRole('dialog', { hidden: true })).toBeNull());
    model.dispose();
  });

  it('has another guarantee on Friday mornings, in the time zone of whoever adds it', async () => {
    const [scheduler, model] = await page();
    await edit();
    fireEvent.click(screen.getByText('Add a time window'));
    type('On', 'fri');
    type('From', ' 09:00');
    type('GPUs then', 'all');
    fireEvent.click(screen.getByText('Review the change'));
    await screen.findByText('Write the guarantee of a time window as a number, such as 4 or 0.5.');
    type('GPUs then', '5');
    fireEvent.click(screen.getByText('Review the change'));
    fireEvent.click(await screen.findByText('Apply'));
    const { timeZone: timezone } = Intl.DateTimeFormat().resolvedOptions();
    const window = { days: 'fri', from: '09:00', to: '12:00', first: null, last: null, timezone, guaranteed: 5 };
    await waitFor(() => expect(scheduler.projects[0]!.windows).toEqual([window]));
    await screen.findByText('Fridays 09:00–12:00: 5');
    await waitFor(() => expect(screen.queryByRole('dialog', { hidden: true })).toBeNull());
    await edit();
    fireEvent.click(screen.getByText('Remove'));
    fireEvent.click(screen.getByText('Review the change'));
    fireEvent.click(await screen.findByText('Apply'));
    await waitFor(() => expect(scheduler.projects[0]!.windows).toEqual([]));
    model.dispose();
  });

  it('keeps edited fields when someone else changed the project, and updates the others', async () => {
    const [scheduler, model] = await page();
    await edit();
    type('Limit (GPUs)', '3');
    fireEvent.click(screen.getByText('Review the change'));
    await screen.findByText('Apply');
    scheduler.projects = [aProject('vision', { guaranteed: 1 })];
    fireEvent.click(screen.getByText('Apply'));
    await screen.findByText('Project vision has been changed meanwhile.');
    await waitFor(() => expect(screen.getByLabelText<HTMLInputElement>('Guarantee (GPUs)').value).toBe('1'));
    fireEvent.click(screen.getByText('Review the change'));
    fireEvent.click(await screen.findByText('Apply'));
    await waitFor(() => expect(scheduler.projects[0]).toMatchObject({ guaranteed: 1, limit: 3 }));
    model.dispose();
  });

  it('names an invalid field and sends no request', async () => {
    const [scheduler, model] = await page();
    await edit();
    type('Limit (GPUs)', 'four');
    fireEvent.click(screen.getByText('Review the change'));
    await screen.findByText('Write a number such as 4 or 0.5, or leave it empty: no limit.');
    expect(screen.getByLabelText('Limit (GPUs)').getAttribute('aria-invalid')).toBe('true');
    expect(scheduler.previews).toEqual([]);
    model.dispose();
  });

  it('is retired after a preview', async () => {
    const [scheduler, model] = await page();
    await edit();
    fireEvent.click(screen.getByText('Retire…'));
    fireEvent.click(await screen.findByText('Retire'));
    await waitFor(() => expect(scheduler.projects).toEqual([]));
    expect(scheduler.asked).toContain('POST pool/preview?remove=true');
    model.dispose();
  });

  it('is read-only without the permission', async () => {
    const [, model] = await page(false);
    expect(screen.queryByRole('button', { name: 'Edit vision' })).toBeNull();
    expect(screen.queryByText('New project')).toBeNull();
    model.dispose();
  });
});
