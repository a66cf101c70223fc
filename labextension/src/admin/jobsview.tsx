/** All jobs, or those that match a state, project and user, in the order of a column. */
import {
  useCallback,
  useContext,
  useEffect,
  useMemo,
  useRef,
  useState,
  type FormEvent,
  type ReactElement
} from 'react';
import { StillContext, useShown, useTrans } from '../components/hooks';
import type { JobActions } from '../components/job';
import type { Question } from '../components/question';
import type { JobPage, JobState, JobView } from '../model/api';
import type { JobOrder } from '../model/requests';
import { stateWord } from '../model/format';
import { cancelAll } from '../model/cancelling';
import { isFinal, UNFINISHED, type IPoolModel, type PoolState } from '../model/state';
import { Card } from './card';
import { JobsTable } from './jobstable';
import { PriorityDialog } from './prioritydialog';
import { asTree } from './projects';

const PAGE = 100;
/** The minimum pause between two reads, in milliseconds. */
const REST = 2000;
const STATES: readonly JobState[] = [...UNFINISHED, 'succeeded', 'failed', 'cancelled'];

interface Wanted {
  state: string;
  project: string;
  user: string;
  find: string;
}

export interface JobsViewProps {
  /** The id of the job that is found and unfolded first; empty for all jobs. */
  of: string;
  model: IPoolModel;
  state: PoolState;
  actions: JobActions;
  confirm: (question: Question) => Promise<boolean>;
  /** Runs an action and shows the error if it is refused. */
  attempt: (act: () => Promise<void>) => Promise<void>;
}

export function JobsView({ of, model, state, actions, confirm, attempt }: JobsViewProps): ReactElement {
  const trans = useTrans();
  const [wanted, setWanted] = useState<Wanted>({ state: '', project: '', user: '', find: of });
  const [order, setOrder] = useState<JobOrder>({ sort: 'submitted', order: 'desc' });
  const [found, setFound] = useState<{ of: Wanted; page: JobPage } | null>(null);
  const [round, setRound] = useState(0);
  /** The jobs whose priority is being changed. */
  const [ranked, setRanked] = useState<readonly JobView[] | null>(null);
  const seen = useRef(state.jobs);
  const readAt = useRef(0);
  const latest = useRef<object | null>(null);
  const all = Object.values(wanted).every(value => value === '');
  const page = found?.of === wanted ? found.page : null;
  const asked = useMemo(() => ({ ...queryOf(wanted), ...order }), [wanted, order]);
  const read = useCallback(async () => {
    seen.current = model.state.jobs;
    readAt.current = Date.now();
    const page = await model.client.jobs(asked);
    if (asked === latest.current) {
      setFound({ of: wanted, page });
    }
  }, [model, wanted, asked]);
  useEffect(() => {
    latest.current = asked;
    void attempt(read);
  }, [asked, read, round, attempt]);
  const still = useContext(StillContext);
  const long = (page?.jobs.length ?? 0) > PAGE;
  // What happens to jobs moves rows only on the first page, and not under the pointer.
  useEffect(() => {
    if (still || long || state.jobs === seen.current) {
      return;
    }
    const again = () => void read().catch(() => undefined); // the page already shows a lost connection
    const timer = setTimeout(again, Math.max(0, readAt.current + REST - Date.now()));
    return () => clearTimeout(timer);
  }, [state.jobs, still, long, read]);

  const more = (before: JobPage) =>
    attempt(async () => {
      const next = await model.client.jobs({ ...asked, after: before.next ?? '' });
      setFound(now =>
        now?.page === before ? { ...now, page: { ...next, jobs: [...before.jobs, ...next.jobs] } } : now
      );
    });
  const jobs = page ? page.jobs.map(job => state.jobs.get(job.id) ?? job) : [];
  useShown(model, jobs);
  const unfinished = all ? [] : jobs.filter(job => !isFinal(job.state));
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
    const next = { state: text('state'), project: text('project'), user: text('user'), find: text('find') };
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
        <input
          name="find"
          defaultValue={of}
          aria-label={trans.__('Name or id')}
          placeholder={trans.__('name or id')}
          maxLength={200}
          autoComplete="off"
        />
        <input name="user" aria-label={trans.__('User')} placeholder={trans.__('user')} autoComplete="off" />
        <button type="submit" className="runai-Button">
          {trans.__('Find')}
        </button>
        {state.me?.admin && unfinished.length > 0 && (
          <button type="button" className="runai-Button" onClick={() => void cancel()}>
            {trans._n('Cancel %1 job…', 'Cancel %1 jobs…', unfinished.length)}
          </button>
        )}
        {state.me?.admin && unfinished.length > 0 && (
          <button type="button" className="runai-Button" onClick={() => setRanked(unfinished)}>
            {trans._n('Priority of %1 job…', 'Priority of %1 jobs…', unfinished.length)}
          </button>
        )}
      </form>
      <JobsTable
        unfolded={of || null}
        jobs={jobs}
        me={state.me}
        client={model.client}
        actions={{
          act: async (job, verb) => {
            await actions.act(job, verb);
            setRound(round + 1);
          }
        }}
        order={order}
        setOrder={setOrder}
        setPriority={job => setRanked([job])}
      />
      {jobs.length === 0 && (
        <p className="runai-Empty">{page ? trans.__('No jobs match.') : trans.__('Loading the jobs…')}</p>
      )}
      {page && page.next !== null && (
        <button type="button" className="runai-Link runai-More" onClick={() => void more(page)}>
          {trans.__('Show more jobs')}
        </button>
      )}
      {ranked && (
        <PriorityDialog
          jobs={ranked}
          client={model.client}
          close={() => {
            setRanked(null);
            setRound(round + 1);
          }}
        />
      )}
    </Card>
  );
}

function queryOf({ state, project, user, find }: Wanted): Parameters<IPoolModel['client']['jobs']>[0] {
  return {
    limit: PAGE,
    ...(state ? { states: [state as JobState] } : {}),
    ...(project ? { project } : {}),
    ...(user ? { user } : {}),
    ...(find ? { find } : {})
  };
}
