/** Every job: the newest as they change, or those that the service finds by state, project and user. */
import { useEffect, useState, type FormEvent, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { JobActions } from '../components/job';
import { JobList } from '../components/jobs';
import type { Question } from '../components/question';
import type { JobPage, JobState, JobView } from '../model/api';
import { stateWord } from '../model/format';
import { isFinal, UNFINISHED, type IPoolModel, type PoolState } from '../model/state';
import { PoolError } from '../model/transport';
import { Card } from './card';
import { asTree } from './projects';

const PAGE = 200;
const CONFLICT = 409;
const STATES: readonly JobState[] = [...UNFINISHED, 'succeeded', 'failed', 'cancelled'];

interface Wanted {
  state: string;
  project: string;
  user: string;
}

export interface JobsViewProps {
  model: IPoolModel;
  state: PoolState;
  actions: JobActions;
  confirm: (question: Question) => Promise<boolean>;
  /** Does something and shows why it was refused. */
  attempt: (act: () => Promise<void>) => Promise<void>;
}

export function JobsView({ model, state, actions, confirm, attempt }: JobsViewProps): ReactElement {
  const trans = useTrans();
  const [wanted, setWanted] = useState<Wanted>({ state: '', project: '', user: '' });
  const [found, setFound] = useState<{ of: Wanted; page: JobPage } | null>(null);
  const [round, setRound] = useState(0);
  const all = Object.values(wanted).every(value => value === '');
  const page = !all && found?.of === wanted ? found.page : null;
  useEffect(() => {
    if (all) {
      return;
    }
    let gone = false;
    void attempt(async () => {
      const read = await model.client.jobs(queryOf(wanted));
      if (!gone) {
        setFound({ of: wanted, page: read });
      }
    });
    return () => {
      gone = true;
    };
  }, [model, wanted, all, round, attempt]);

  const more = (before: JobPage) =>
    attempt(async () => {
      const read = await model.client.jobs({ ...queryOf(wanted), after: before.next ?? '' });
      setFound({ of: wanted, page: { ...read, jobs: [...before.jobs, ...read.jobs] } });
    });
  const jobs = page ? page.jobs.map(job => state.jobs.get(job.id) ?? job) : all ? [...state.jobs.values()] : [];
  const unfinished = page ? jobs.filter(job => !isFinal(job.state)) : [];
  const cancel = async () => {
    const question = {
      title: trans._n('Cancel this job?', 'Cancel these %1 jobs?', unfinished.length),
      body: trans.__('They will stop or leave the queue. Anything they have not saved is lost.'),
      yes: trans._n('Cancel the job', 'Cancel the jobs', unfinished.length),
      no: trans.__('Keep them')
    };
    if (await confirm(question)) {
      await attempt(() => cancelAll(model, unfinished));
      setRound(round + 1);
    }
  };
  const choose = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => String(form.get(name) ?? '').trim();
    const next = { state: text('state'), project: text('project'), user: text('user') };
    if (JSON.stringify(next) !== JSON.stringify(wanted)) {
      setWanted(next);
    }
  };
  return (
    <Card title={trans.__('Jobs')}>
      <form
        className="runai-Find"
        role="search"
        aria-label={trans.__('Find jobs')}
        onSubmit={choose}
        onChange={event => {
          if (event.target instanceof HTMLSelectElement) {
            event.currentTarget.requestSubmit();
          }
        }}
      >
        <select name="state" aria-label={trans.__('State')} defaultValue="">
          <option value="">{trans.__('every state')}</option>
          {STATES.map(one => (
            <option key={one} value={one}>
              {stateWord(one, trans)}
            </option>
          ))}
        </select>
        <select name="project" aria-label={trans.__('Project')} defaultValue="">
          <option value="">{trans.__('every project')}</option>
          {asTree(state.projects)
            .filter(({ project }) => project.takes_jobs)
            .map(({ project }) => (
              <option key={project.name}>{project.name}</option>
            ))}
        </select>
        <input name="user" aria-label={trans.__('User')} placeholder={trans.__('user')} autoComplete="off" />
        <button type="submit" className="runai-Button">
          {trans.__('Find')}
        </button>
        {state.me?.admin && unfinished.length > 0 && (
          <button type="button" className="runai-Button" onClick={() => void cancel()}>
            {trans._n('Cancel %1 job…', 'Cancel %1 jobs…', unfinished.length)}
          </button>
        )}
      </form>
      <JobList
        jobs={jobs}
        me={state.me}
        model={model}
        actions={{
          act: async (job, verb) => {
            await actions.act(job, verb);
            setRound(round + 1);
          }
        }}
        named
        label={trans.__('Jobs')}
        empty={all || page ? trans.__('There are no such jobs.') : trans.__('Looking for jobs…')}
      />
      {page && page.next !== null && (
        <button type="button" className="runai-Link runai-More" onClick={() => void more(page)}>
          {trans.__('Find older jobs')}
        </button>
      )}
    </Card>
  );
}

function queryOf({ state, project, user }: Wanted): Parameters<IPoolModel['client']['jobs']>[0] {
  return {
    limit: PAGE,
    ...(state ? { states: [state as JobState] } : {}),
    ...(project ? { project } : {}),
    ...(user ? { user } : {})
  };
}

/** One after the other; one that has ended meanwhile is no trouble. */
async function cancelAll(model: IPoolModel, jobs: readonly JobView[]): Promise<void> {
  for (const job of jobs) {
    try {
      await model.act(job.id, 'cancel');
    } catch (error) {
      if (!(error instanceof PoolError && error.status === CONFLICT)) {
        throw error;
      }
    }
  }
}
