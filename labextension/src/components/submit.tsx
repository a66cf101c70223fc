/** The form for a job: what to run, common options, and further options in collapsed sections. */
import { useEffect, useId, useRef, useState, type ReactElement } from 'react';
import { CellSubmission } from '../model/cellsubmission';
import { bytes, outcome } from '../model/format';
import { OPTIONS, type OfferKind, type SubmitOption } from '../model/options';
import type { IPoolModel, PoolState } from '../model/state';
import { timesInWords } from '../model/schedules';
import {
  CloneSubmission,
  JobSubmission,
  RUN,
  SCHEDULE,
  TIME_ZONE,
  type Submission,
  type SubmissionState
} from '../model/submission';
import type { Trans } from '../trans';
import { GoesAlong } from './along';
import { useChanging, useNow, usePool, useTrans } from './hooks';
import { TemplateRow } from './templates';
import { TimesField } from './timesfield';

const BASIC = OPTIONS.filter(option => option.basic);
const GROUPS = [...new Set(OPTIONS.map(option => option.group))].map(group => ({
  group,
  options: OPTIONS.filter(option => option.group === group && !option.basic)
}));

function isFolded(name: string): boolean {
  return GROUPS.some(({ options }) => options.some(option => option.name === name));
}

/** The delay before a dry run, in milliseconds without typing or new pool figures. */
const RESTING = 400;

export interface SubmitFormProps {
  submission: Submission;
  model: IPoolModel;
}

export function SubmitForm({ submission, model }: SubmitFormProps): ReactElement {
  const trans = useTrans();
  const pool = usePool(model);
  const state = useChanging(submission.changed, () => submission.state);
  const form = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState(() => Object.keys(state.values).some(name => name !== 'name' && isFolded(name)));
  const field = state.refusal?.field ?? null;
  const folded = field !== null && isFolded(field);
  const shown = field === RUN || OPTIONS.some(option => option.name === field);

  useEffect(() => {
    void submission.look();
  }, [submission]);
  useEffect(() => {
    const timer = setTimeout(() => void submission.tryOut(), RESTING);
    return () => clearTimeout(timer);
  }, [submission, state.run, state.values, pool.projects]);
  useEffect(() => {
    if (folded) {
      setOpen(true);
    }
  }, [folded, state.refusal]);
  useEffect(() => {
    if (field && (open || !folded)) {
      form.current?.querySelector<HTMLElement>(`[name="${field}"]`)?.focus();
    }
  }, [field, folded, open, state.refusal]);

  const asked = (option: SubmitOption) => (
    <OptionField
      key={option.name}
      option={option}
      text={state.values[option.name] ?? ''}
      offers={offersOf(option.offers, pool)}
      problem={field === option.name ? state.refusal!.sentence : null}
      change={text => submission.set(option.name, text)}
    />
  );
  const applies = (option: SubmitOption) => submission.takes(option.name);
  return (
    <div className="runai-Submit" ref={form}>
      {!(submission instanceof CloneSubmission) && <TemplateRow submission={submission} />}
      {submission instanceof JobSubmission && (
        <RunField submission={submission} state={state} help={filesInWords(submission, state, trans)} />
      )}
      {submission instanceof CloneSubmission && !submission.fixed && (
        <RunField
          submission={submission}
          state={state}
          help={trans.__('Runs with the files that were sent with %1.', submission.like.name)}
        />
      )}
      {submission instanceof CloneSubmission && submission.fixed && (
        <div className="runai-Field-help">
          {trans.__('Runs the code with the variables and the files that were sent with %1.', submission.like.name)}
        </div>
      )}
      {submission instanceof CellSubmission && <GoesAlong along={state.along} />}
      <div className="runai-Submit-fields">{BASIC.filter(applies).map(asked)}</div>
      <DryRun found={state.refusal ? null : state.dryRun} values={state.values} along={state.along} />
      <details open={open} onToggle={event => setOpen(event.currentTarget.open)}>
        <summary>{trans.__('More options')}</summary>
        {GROUPS.map(({ group, options }) => (
          <fieldset key={group}>
            <legend>{trans.__(group)}</legend>
            <div className="runai-Submit-fields">{options.filter(applies).map(asked)}</div>
          </fieldset>
        ))}
      </details>
      {state.line && (
        <div className="runai-Field">
          <div className="runai-Field-help">{trans.__('This line will be written above the cell:')}</div>
          <code className="runai-Submit-line">{state.line}</code>
        </div>
      )}
      {state.refusal && !shown && (
        <div className="runai-Field-problem" role="alert">
          {state.refusal.sentence}
        </div>
      )}
    </div>
  );
}

/** The result of the dry run, or when it would run; the line keeps its height while there is none. */
function DryRun({
  found,
  values,
  along
}: Pick<SubmissionState, 'values' | 'along'> & { found: SubmissionState['dryRun'] }) {
  const trans = useTrans();
  const now = useNow();
  const times =
    values[SCHEDULE] && trans.__('%1, %2', timesInWords(values[SCHEDULE], trans), values[TIME_ZONE] ?? 'UTC');
  const saves = !(along && along !== 'waiting' && 'saves' in along) || along.saves;
  const said = found && ('sentence' in found ? found.sentence : (times ?? outcome(found, saves, now, trans)));
  const kind = !found
    ? undefined
    : 'sentence' in found
      ? 'refused'
      : times || (found.starts && !found.over_quota)
        ? 'starts'
        : 'waits';
  return (
    <div className="runai-Submit-outcome" role="status" data-kind={kind}>
      {said}
    </div>
  );
}

interface RunFieldProps {
  submission: JobSubmission | CloneSubmission;
  state: SubmissionState;
  help: string;
}

function RunField({ submission, state, help }: RunFieldProps): ReactElement {
  const trans = useTrans();
  const id = useId();
  const problem = state.refusal?.field === RUN ? state.refusal.sentence : null;
  return (
    <div className="runai-Field">
      <label htmlFor={id}>{trans.__('Run')}</label>
      <input
        id={id}
        name={RUN}
        className="jp-mod-styled runai-Submit-run"
        value={state.run}
        placeholder={trans.__('train.py --epochs 3')}
        spellCheck={false}
        autoComplete="off"
        aria-invalid={problem !== null}
        aria-describedby={`${id}-said`}
        onChange={event => submission.setRun(event.target.value)}
      />
      <Said id={`${id}-said`} problem={problem}>
        {help}
      </Said>
    </div>
  );
}

/** What would be sent from the folder. */
function filesInWords(submission: JobSubmission, { files }: SubmissionState, trans: Trans): string {
  if (files && 'sentence' in files) {
    return files.sentence;
  }
  const folder = submission.folder || '/';
  if (!files) {
    return trans.__('Runs in a copy of the folder %1.', folder);
  }
  if (!files.files) {
    return trans.__('Runs in an empty folder.');
  }
  return trans._n(
    'Runs in a copy of the folder %2: 1 file (%3).',
    'Runs in a copy of the folder %2: %1 files (%3).',
    files.files,
    folder,
    bytes(files.size, trans)
  );
}

interface OptionFieldProps {
  option: SubmitOption;
  text: string;
  offers: readonly string[];
  problem: string | null;
  change: (text: string) => void;
}

function OptionField({ option, text, offers, problem, change }: OptionFieldProps): ReactElement {
  const trans = useTrans();
  const id = useId();
  const help = trans.__(option.help);
  const said = { id, name: option.name, 'aria-invalid': problem !== null, title: help };
  const described = { ...said, 'aria-describedby': `${id}-said` };
  if (option.field === 'switch') {
    return (
      <div className="runai-Field" data-field="switch">
        <label>
          <input
            {...described}
            type="checkbox"
            checked={text === 'true'}
            onChange={event => change(event.target.checked ? 'true' : '')}
          />
          {trans.__(option.label)}
        </label>
        <Said id={`${id}-said`} problem={problem}>
          {option.basic ? null : help}
        </Said>
      </div>
    );
  }
  return (
    <div className="runai-Field" data-field={option.field}>
      <label htmlFor={id}>{trans.__(option.label)}</label>
      <Control {...{ option, text, offers, change, described }} />
      <Said id={`${id}-said`} problem={problem}>
        {option.basic ? null : help}
      </Said>
    </div>
  );
}

type ControlProps = Pick<OptionFieldProps, 'option' | 'text' | 'offers' | 'change'> & {
  described: { id: string; name: string; title: string };
};

function Control({ option, text, offers, change, described }: ControlProps): ReactElement {
  const trans = useTrans();
  const standard = trans.__(option.standard);
  if (option.name === SCHEDULE) {
    return <TimesField cron={text} change={change} described={described} />;
  }
  const choices = option.offers === 'project' ? offers : option.choices;
  if (choices.length > 0) {
    return (
      <select {...described} className="jp-mod-styled" value={text} onChange={event => change(event.target.value)}>
        <option value="">{standard.charAt(0).toUpperCase() + standard.slice(1)}</option>
        {choices
          .filter(choice => choice !== option.standard)
          .map(choice => (
            <option key={choice}>{choice}</option>
          ))}
      </select>
    );
  }
  const written = {
    ...described,
    value: text,
    placeholder: hintOf(option, trans),
    spellCheck: false,
    className: 'jp-mod-styled'
  };
  if (option.field === 'lines') {
    return <textarea {...written} rows={2} onChange={event => change(event.target.value)} />;
  }
  return (
    <>
      <input
        {...written}
        type="text"
        inputMode={option.field === 'number' ? 'decimal' : 'text'}
        autoComplete="off"
        list={offers.length > 0 ? `${described.id}-offers` : undefined}
        onChange={event => change(event.target.value)}
      />
      {offers.length > 0 && (
        <datalist id={`${described.id}-offers`}>
          {offers.map(offer => (
            <option key={offer} value={offer} />
          ))}
        </datalist>
      )}
    </>
  );
}

/** The placeholder of an empty field: its default, or an example. */
function hintOf(option: SubmitOption, trans: Trans): string {
  if (option.standard) {
    return trans.__(option.standard);
  }
  const written = option.field === 'lines' ? `${option.metavar}\n…` : option.example;
  return written && (option.field === 'lines' ? written : trans.__('e.g. %1', written));
}

/** The hint below a field: its purpose, or its error. */
export function Said(props: { id: string; problem: string | null; children: string | null }) {
  return props.problem !== null ? (
    <div id={props.id} className="runai-Field-problem" role="alert">
      {props.problem}
    </div>
  ) : (
    <div id={props.id} className="runai-Field-help">
      {props.children}
    </div>
  );
}

/** The values that the pool offers. */
function offersOf(kind: OfferKind | null, { me, pool, jobs }: PoolState): readonly string[] {
  const nodes = pool?.nodes.filter(node => node.environment === 'train') ?? [];
  switch (kind) {
    case 'project':
      return me?.projects ?? [];
    case 'gpuType':
      return unique(nodes.map(node => node.gpu_type));
    case 'nodePool':
      return unique(nodes.map(node => node.node_pool));
    case 'job':
      return unique([...jobs.values()].filter(job => job.mine).map(job => job.array ?? job.id));
    case null:
      return [];
  }
}

function unique(names: readonly (string | null)[]): string[] {
  return [...new Set(names.filter(name => name !== null))].sort();
}
