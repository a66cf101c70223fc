/** Changes some rules, after a look at what that brings about. */
import { useEffect, useId, useRef, useState, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { Applied, JobView, PolicyEntry, PoolFile } from '../model/api';
import { ReviewDialog } from './reviewdialog';
import { CHOICES, changed, fieldText, read, valueOf, type Rule } from './rules';

type Rules = PoolFile | PolicyEntry;

/** What is changed, as it was read, and how it is changed. */
export interface Subject<T extends Rules> {
  readonly now: T;
  readonly put: (next: T, preview: boolean) => Promise<Applied | void>;
}

export interface PolicyDialogProps<T extends Rules> {
  title: string;
  rules: readonly Rule[];
  jobs: ReadonlyMap<string, JobView>;
  load: () => Promise<Subject<T>>;
  close: (applied: boolean) => void;
}

export function PolicyDialog<T extends Rules>(props: PolicyDialogProps<T>): ReactElement {
  const { title, rules, jobs, load, close } = props;
  const trans = useTrans();
  const [subject, setSubject] = useState<Subject<T> | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [typed, setTyped] = useState<Readonly<Record<string, string>>>({});
  const applied = useRef(false);
  // Read only once: a change must apply to the version that the user has seen.
  useEffect(() => {
    load().then(setSubject, (error: Error) => setProblem(error.message));
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  const before = (rule: Rule) => (subject ? fieldText(rule, read(subject.now, rule.path)) : '');
  const put = async (preview: boolean) => {
    const edited = rules.filter(rule => (typed[rule.path.join('.')] ?? before(rule)) !== before(rule));
    const values = edited.map(rule => [rule.path, valueOf(rule, typed[rule.path.join('.')]!, trans)] as const);
    return subject!.put(changed(subject!.now, values), preview);
  };
  return (
    <ReviewDialog
      title={title}
      ready={subject !== null}
      jobs={jobs}
      look={async () => (await put(true)) as Applied}
      apply={async () => {
        await put(false);
        applied.current = true;
      }}
      close={() => close(applied.current)}
    >
      {problem && <p role="alert">{problem}</p>}
      {!subject && !problem && <p>{trans.__('Loading the rules…')}</p>}
      {subject && (
        <div className="runai-Editor-fields">
          {rules.map(rule => (
            <RuleField
              key={rule.path.join('.')}
              rule={rule}
              value={typed[rule.path.join('.')] ?? before(rule)}
              change={text => setTyped({ ...typed, [rule.path.join('.')]: text })}
            />
          ))}
        </div>
      )}
    </ReviewDialog>
  );
}

interface RuleFieldProps {
  rule: Rule;
  value: string;
  change: (text: string) => void;
}

function RuleField({ rule, value, change }: RuleFieldProps): ReactElement {
  const trans = useTrans();
  const id = useId();
  const choices = choicesOf(rule, value, (words: string) => trans.__(words));
  const hint = rule.hint ?? (rule.zero && trans.__('0: %1', rule.zero));
  return (
    <div className="runai-Editor-field">
      <label htmlFor={id}>{rule.label}</label>
      {choices ? (
        <select id={id} value={value} onChange={event => change(event.target.value)}>
          {choices.map(([name, words]) => (
            <option key={name} value={name}>
              {words}
            </option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          value={value}
          autoComplete="off"
          spellCheck={false}
          placeholder={rule.empty}
          aria-describedby={hint ? `${id}-help` : undefined}
          onChange={event => change(event.target.value)}
        />
      )}
      {hint && (
        <span id={`${id}-help`} className="runai-Hint">
          {hint}
        </span>
      )}
    </div>
  );
}

function choicesOf(rule: Rule, value: string, said: (words: string) => string): [string, string][] | null {
  const choices = CHOICES[rule.kind]?.map(([name, words]): [string, string] => [name, said(words)]);
  if (!choices) {
    return null;
  }
  const known = value === '' || choices.some(([name]) => name === value);
  return [
    ...(rule.empty === undefined ? [] : [['', said(rule.empty)] as [string, string]]),
    ...choices,
    ...(known ? [] : [[value, value] as [string, string]])
  ];
}
