/**
 * Adds, changes or retires a project: edit the fields, see the effects, confirm. If someone else changes the project
 * meanwhile, the edited fields keep their text and the other fields take the new values.
 */
import {
  useCallback,
  useEffect,
  useId,
  useRef,
  useState,
  type FormEvent,
  type ReactElement,
  type ReactNode
} from 'react';
import { useTrans } from '../components/hooks';
import type { Applied, PoolView, ProjectEntry } from '../model/api';
import type { Client, SeenProject } from '../model/client';
import type { PoolState } from '../model/state';
import { PoolError } from '../model/transport';
import { entryOf, subtreeOf, fieldsOf, guaranteeSumOf, InvalidField, type Field, type Fields } from './draft';
import { Preview } from './preview';
import { asTree } from './projects';
import { Windows, windowsOf, windowTexts, type WindowText } from './windows';

const CHANGED = 412;

export interface ProjectDialogProps {
  client: Client;
  state: PoolState;
  pool: PoolView;
  /** The project to edit; null: a new one. */
  name: string | null;
  close: () => void;
}

interface Review {
  entry: ProjectEntry;
  remove: boolean;
  found: Applied;
}

interface Problem {
  sentence: string;
  field: string | null;
}

export function ProjectDialog({ client, state, pool, name, close }: ProjectDialogProps): ReactElement {
  const trans = useTrans();
  const dialog = useRef<HTMLDialogElement>(null);
  const [seen, setSeen] = useState<SeenProject | null>(null);
  const [typed, setTyped] = useState<Partial<Fields>>({});
  const [changed, setChanged] = useState<WindowText[] | null>(null);
  const [review, setReview] = useState<Review | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const title = useId();
  const fields: Fields = { ...fieldsOf(seen?.view ?? null), ...typed };
  const windows = changed ?? windowTexts(seen?.view.windows ?? []);

  const loaded = seen !== null;
  // The browser restores the focus when it closes the dialog.
  const end = () => dialog.current?.close();

  useEffect(() => {
    if (!dialog.current?.open) {
      dialog.current?.showModal();
    }
    if (loaded) {
      dialog.current?.querySelector<HTMLElement>('[name="guaranteed"]')?.focus();
    }
  }, [loaded]);

  /** Runs a request and shows its error; reads the project again if it has changed. */
  const attempt = useCallback(
    async (act: () => Promise<void>) => {
      setBusy(true);
      setProblem(null);
      try {
        await act();
      } catch (reason) {
        const error = reason as Error;
        const field = error instanceof InvalidField || error instanceof PoolError ? error.field : null;
        setProblem({ sentence: error.message, field });
        setReview(null);
        if (name !== null && error instanceof PoolError && error.status === CHANGED) {
          const now = await client.project(name).catch(() => null);
          setSeen(before => now ?? before);
        }
      }
      setBusy(false);
    },
    [client, name]
  );
  // Read only once: a change must apply to the version that the user has seen.
  useEffect(() => {
    if (name !== null) {
      void attempt(async () => setSeen(await client.project(name)));
    }
  }, [attempt, client, name]);

  const look = (remove: boolean) =>
    attempt(async () => {
      const base = entryOf(remove ? fieldsOf(seen!.view) : fields, seen?.view ?? null, trans);
      const entry = remove ? base : { ...base, windows: windowsOf(windows, trans) };
      setReview({ entry, remove, found: await client.previewProject(entry, remove) });
    });
  const apply = ({ entry, remove }: Review) =>
    attempt(async () => {
      await (remove
        ? client.removeProject(entry.name, seen!.version)
        : client.putProject(entry, seen?.version ?? null));
      end();
    });
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void (review ? apply(review) : look(false));
  };
  const parents = state.projects.some(project => project.parent === name);
  const heading =
    name === null
      ? trans.__('New project')
      : review?.remove
        ? trans.__('Retire %1?', name)
        : trans.__('Project %1', name);
  return (
    <dialog ref={dialog} className="runai-Dialog runai-Editor" aria-labelledby={title} onClose={close}>
      <form onSubmit={submit}>
        <h2 id={title}>{heading}</h2>
        {review ? (
          <Preview found={review.found} jobs={state.jobs} />
        ) : name !== null && !loaded ? (
          <p>{busy ? trans.__('Loading the project…') : ''}</p>
        ) : (
          <>
            <ProjectFields
              fields={fields}
              name={name}
              state={state}
              pool={pool}
              problem={problem}
              change={(field, text) => setTyped({ ...typed, [field]: text })}
            />
            <Windows windows={windows} set={setChanged} />
          </>
        )}
        {problem && (
          <p className="runai-Editor-problem" role="alert">
            {problem.sentence}
          </p>
        )}
        <div className="runai-Dialog-buttons">
          {name !== null && !review && (
            <button
              type="button"
              className="runai-Editor-retire"
              disabled={busy || !loaded || parents}
              title={parents ? trans.__('Retire or move the projects below it first.') : undefined}
              onClick={() => void look(true)}
            >
              {trans.__('Retire…')}
            </button>
          )}
          {review ? (
            <button type="button" onClick={() => setReview(null)}>
              {trans.__('Back')}
            </button>
          ) : (
            <button type="button" onClick={end}>
              {trans.__('Close')}
            </button>
          )}
          <button
            type="submit"
            className={review?.remove ? 'runai-Danger' : 'runai-Primary'}
            disabled={busy || (name !== null && !loaded) || review?.found.changes.length === 0}
          >
            {!review ? trans.__('Review the change') : review.remove ? trans.__('Retire') : trans.__('Apply')}
          </button>
        </div>
      </form>
    </dialog>
  );
}

interface ProjectFieldsProps {
  fields: Fields;
  name: string | null;
  state: PoolState;
  pool: PoolView;
  problem: Problem | null;
  change: (field: Field, text: string) => void;
}

function ProjectFields({ fields, name, state, pool, problem, change }: ProjectFieldsProps): ReactElement {
  const trans = useTrans();
  const promise = guaranteeSumOf(fields, name, state.projects, pool, trans);
  const own = name === null ? new Set<string>() : subtreeOf(name, state.projects);
  const text = (field: Field, label: string, help: ReactNode = null, rest: object = {}) => (
    <Labelled label={label} help={help}>
      {(id, helpId) => (
        <input
          id={id}
          name={field}
          value={fields[field]}
          autoComplete="off"
          spellCheck={false}
          aria-describedby={helpId}
          aria-invalid={problem?.field === field}
          onChange={event => change(field, event.target.value)}
          {...rest}
        />
      )}
    </Labelled>
  );
  const choice = (field: Field, label: string, choices: [string, string][]) => (
    <Labelled label={label} help={null}>
      {id => (
        <select id={id} name={field} value={fields[field]} onChange={event => change(field, event.target.value)}>
          {choices.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      )}
    </Labelled>
  );
  const number = { inputMode: 'decimal' };
  return (
    <div className="runai-Editor-fields">
      {name === null && text('name', trans.__('Name'), null, { required: true, autoFocus: true })}
      {choice('parent', trans.__('Below'), [
        ['', trans.__('– (at the top)')],
        ...asTree(state.projects)
          .filter(({ project }) => !own.has(project.name))
          .map(({ project, depth }): [string, string] => [project.name, '\u2003'.repeat(depth) + project.name])
      ])}
      {text(
        'guaranteed',
        trans.__('Guarantee (GPUs)'),
        promise ? (
          <span data-over={promise.over}>{promise.over ? trans.__('%1: too many', promise.words) : promise.words}</span>
        ) : (
          trans.__('empty: unlimited')
        ),
        number
      )}
      {text('limit', trans.__('Limit (GPUs)'), trans.__('empty: none'), number)}
      {text('weight', trans.__('Weight'), trans.__('empty: same as the guarantee'), number)}
      {text('priority', trans.__('Priority'), trans.__('the highest gets surplus first'), { inputMode: 'numeric' })}
      {choice('order', trans.__('Order of its jobs'), [
        ['', trans.__('as the parent project')],
        ['arrival', trans.__('oldest first')],
        ['served', trans.__('least served first')]
      ])}
      {text('members', trans.__('Members'), trans.__('user names; * is everybody'))}
      {text('groups', trans.__('Groups'), trans.__('JupyterHub groups'))}
    </div>
  );
}

interface LabelledProps {
  label: string;
  help: ReactNode;
  children: (id: string, helpId: string) => ReactElement;
}

function Labelled({ label, help, children }: LabelledProps): ReactElement {
  const id = useId();
  return (
    <div className="runai-Editor-field">
      <label htmlFor={id}>{label}</label>
      {children(id, `${id}-help`)}
      <span id={`${id}-help`} className="runai-Hint" aria-live="polite">
        {help}
      </span>
    </div>
  );
}
