/** The row of templates above a form: choose one, or keep the options under a name. */
import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactElement } from 'react';
import { refusalOf } from '../model/asked';
import type { Submission } from '../model/submission';
import type { Template } from '../model/templates';
import type { PoolError } from '../model/transport';
import { useTrans } from './hooks';

/** In it, Enter and Escape do not close the dialog. */
export const OWN_KEYS = 'runai-Templates-save';

export function TemplateRow({ submission }: { submission: Submission }): ReactElement {
  const trans = useTrans();
  const id = useId();
  const [templates, setTemplates] = useState<Template[]>([]);
  const [chosen, setChosen] = useState('');
  const [isSaving, setSaving] = useState(false);
  const row = useRef<HTMLDivElement>(null);
  const focused = useRef<'select' | 'button' | null>(null); // next
  const template = templates.find(({ name }) => name === chosen);

  useEffect(() => {
    let open = true;
    submission.templates.load().then(
      found => open && setTemplates(found),
      () => {} // the form works without them
    );
    return () => {
      open = false;
    };
  }, [submission]);

  useEffect(() => {
    if (!isSaving && focused.current) {
      row.current?.querySelector<HTMLElement>(focused.current)?.focus();
    }
  }, [isSaving]);

  const choose = (name: string) => {
    setChosen(name);
    submission.start(templates.find(each => each.name === name) ?? null);
  };
  if (isSaving) {
    return (
      <SaveRow
        submission={submission}
        taken={templates.filter(({ own }) => own).map(({ name }) => name)}
        suggested={template?.own ? template.name : ''}
        close={(kept, found) => {
          setSaving(false);
          focused.current = kept ? 'select' : 'button';
          if (kept) {
            setTemplates(found);
            setChosen(kept);
          }
        }}
      />
    );
  }
  return (
    <div className="runai-Field" ref={row}>
      <div className="runai-Templates-row">
        {templates.length > 0 && (
          <>
            <label htmlFor={id}>{trans.__('Template')}</label>
            <select id={id} className="jp-mod-styled" value={chosen} onChange={event => choose(event.target.value)}>
              <option value="">{trans.__('None')}</option>
              {templates.map(({ name, own }) => (
                <option key={name} value={name}>
                  {own ? name : trans.__('%1 (from the administrators)', name)}
                </option>
              ))}
            </select>
          </>
        )}
        <button type="button" className="runai-TextAction" onClick={() => setSaving(true)}>
          {trans.__('Save as template…')}
        </button>
      </div>
      {template?.problem && (
        <div className="runai-Field-problem" role="alert">
          {template.problem}
        </div>
      )}
      {template && template.left_out.length > 0 && (
        <div className="runai-Field-help">
          {trans.__(
            'This form has no field for %1; use --template %2 on a line.',
            template.left_out.join(', '),
            template.name
          )}
        </div>
      )}
    </div>
  );
}

interface SaveRowProps {
  submission: Submission;
  taken: readonly string[];
  suggested: string;
  /** Called with the name that was kept and the templates there are now; with an empty name if none was. */
  close: (kept: string, found: Template[]) => void;
}

function SaveRow({ submission, taken, suggested, close }: SaveRowProps): ReactElement {
  const trans = useTrans();
  const id = useId();
  const [name, setName] = useState(suggested);
  const [problem, setProblem] = useState('');

  const save = () =>
    submission.keep(name.trim()).then(
      found => close(name.trim(), found),
      (error: PoolError) => setProblem(refusalOf(error).sentence)
    );
  const press = (event: KeyboardEvent) => {
    if (event.key === 'Escape') {
      close('', []);
    } else if (event.key === 'Enter' && event.target instanceof HTMLInputElement) {
      event.preventDefault();
      void save();
    }
  };
  return (
    <div className={`runai-Field ${OWN_KEYS}`} onKeyDown={press}>
      <div className="runai-Templates-row">
        <label htmlFor={id}>{trans.__('Template name')}</label>
        <input
          id={id}
          className="jp-mod-styled"
          value={name}
          autoFocus
          spellCheck={false}
          autoComplete="off"
          aria-invalid={problem !== ''}
          aria-describedby={`${id}-said`}
          onChange={event => setName(event.target.value)}
        />
        <button type="button" className="runai-TextAction" disabled={!name.trim()} onClick={() => void save()}>
          {taken.includes(name.trim()) ? trans.__('Replace') : trans.__('Save')}
        </button>
        <button type="button" className="runai-TextAction" onClick={() => close('', [])}>
          {trans.__('Back')}
        </button>
      </div>
      <div
        id={`${id}-said`}
        className={problem ? 'runai-Field-problem' : 'runai-Field-help'}
        role={problem ? 'alert' : undefined}
      >
        {problem || trans.__('Keeps the options of this form, not what it runs. --template uses it, too.')}
      </div>
    </div>
  );
}
