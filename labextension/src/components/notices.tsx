/** The form for notices outside the browser: by e-mail, Slack, Teams or a webhook. */
import { useEffect, useId, useRef, type ReactElement, type ReactNode } from 'react';
import type { NoticeChannel, NoticeKind } from '../model/api';
import type { Notices, NoticesState } from '../model/notices';
import type { Trans } from '../trans';
import { useChanging, useTrans } from './hooks';
import { Said } from './submit';

const CHANNELS: readonly NoticeChannel[] = ['none', 'email', 'slack', 'teams', 'webhook'];
const KINDS: readonly NoticeKind[] = ['failed', 'succeeded', 'cancelled', 'warned', 'paused', 'resumed'];

export function NoticesForm({ notices }: { notices: Notices }): ReactElement {
  const trans = useTrans();
  const state = useChanging(notices.changed, () => notices.state);
  const form = useRef<HTMLDivElement>(null);
  const { channel, events, refusal } = state;
  useEffect(() => {
    if (refusal?.field) {
      form.current?.querySelector<HTMLElement>(`[name="${refusal.field}"]`)?.focus();
    }
  }, [refusal]);
  const shown = ['channel', 'address', 'shortest_success'].includes(refusal?.field ?? '');
  const kept = state.saved.channel === channel ? state.saved.address : '';
  return (
    <div className="runai-Submit" ref={form}>
      <div className="runai-Field-help">
        {trans.__('The scheduler tells you of your jobs also while JupyterLab is closed.')}
      </div>
      <Field name="channel" label={trans.__('Send notices by')} state={state}>
        {props => (
          <select
            {...props}
            className="jp-mod-styled"
            value={channel}
            onChange={event => notices.set({ channel: event.target.value as NoticeChannel })}
          >
            {CHANNELS.map(each => (
              <option key={each} value={each}>
                {channelWord(each, trans)}
              </option>
            ))}
          </select>
        )}
      </Field>
      {channel !== 'none' && (
        <>
          <Field
            name="address"
            label={channel === 'email' ? trans.__('E-mail address') : trans.__('URL of the webhook')}
            help={channel === 'email' ? '' : secret(kept, trans)}
            state={state}
          >
            {props => (
              <input
                {...props}
                className="jp-mod-styled"
                type={channel === 'email' ? 'email' : 'password'}
                autoComplete="off"
                spellCheck={false}
                placeholder={kept}
                value={state.address}
                onChange={event => notices.set({ address: event.target.value })}
              />
            )}
          </Field>
          <fieldset className="runai-Notices-kinds">
            <legend>{trans.__('Tell me when a job of mine')}</legend>
            {KINDS.map(kind => (
              <div key={kind} className="runai-Field" data-field="switch">
                <label>
                  <input
                    type="checkbox"
                    checked={events.has(kind)}
                    onChange={event =>
                      notices.set({
                        events: new Set(KINDS.filter(each => (each === kind ? event.target.checked : events.has(each))))
                      })
                    }
                  />
                  {kindWords(kind, trans)}
                </label>
              </div>
            ))}
          </fieldset>
          {events.has('succeeded') && (
            <Field
              name="shortest_success"
              label={trans.__('Shortest successful job (minutes)')}
              help={trans.__('From its submission to its end.')}
              state={state}
            >
              {props => (
                <input
                  {...props}
                  className="jp-mod-styled"
                  type="number"
                  min={0}
                  value={state.minutes}
                  onChange={event => notices.set({ minutes: event.target.value })}
                />
              )}
            </Field>
          )}
          <div className="runai-Notices-test">
            <button
              type="button"
              className="runai-TextAction"
              disabled={state.busy}
              onClick={() => void notices.test()}
            >
              {trans.__('Save and send a test')}
            </button>
            <Outcome state={state} />
          </div>
        </>
      )}
      {refusal && !shown && (
        <div className="runai-Field-problem" role="alert">
          {refusal.sentence}
        </div>
      )}
    </div>
  );
}

/** What came of a test, or of the last notices. */
function Outcome({ state }: { state: NoticesState }): ReactElement {
  const trans = useTrans();
  const { tested, saved, busy } = state;
  const said = tested?.message ?? saved.problem;
  const kind = !said || busy ? undefined : tested?.delivered ? 'starts' : 'refused';
  const waiting =
    saved.waiting && !tested
      ? trans._n('%1 notice has not been delivered yet.', '%1 notices have not been delivered yet.', saved.waiting)
      : '';
  const text = busy ? trans.__('Sending…') : [said, waiting].filter(Boolean).join(' ');
  return (
    <div className={text && 'runai-Submit-outcome'} role="status" data-kind={kind}>
      {text}
    </div>
  );
}

function secret(kept: string, trans: Trans): string {
  return kept
    ? trans.__('Leave it empty to keep the saved one, which is a secret and not shown.')
    : trans.__('It is a secret, and not shown again.');
}

interface FieldProps {
  name: string;
  label: string;
  help?: string;
  state: NoticesState;
  children: (props: { id: string; name: string; 'aria-invalid': boolean; 'aria-describedby': string }) => ReactNode;
}

function Field({ name, label, help = '', state, children }: FieldProps): ReactElement {
  const id = useId();
  const problem = state.refusal?.field === name ? state.refusal.sentence : null;
  return (
    <div className="runai-Field">
      <label htmlFor={id}>{label}</label>
      {children({ id, name, 'aria-invalid': problem !== null, 'aria-describedby': `${id}-said` })}
      <Said id={`${id}-said`} problem={problem}>
        {help}
      </Said>
    </div>
  );
}

function channelWord(channel: NoticeChannel, trans: Trans): string {
  switch (channel) {
    case 'none':
      return trans.__('No channel');
    case 'email':
      return trans.__('E-mail');
    case 'slack':
      return 'Slack';
    case 'teams':
      return 'Teams';
    case 'webhook':
      return trans.__('Webhook (JSON)');
  }
}

function kindWords(kind: NoticeKind, trans: Trans): string {
  switch (kind) {
    case 'failed':
      return trans.__('fails');
    case 'succeeded':
      return trans.__('succeeds');
    case 'cancelled':
      return trans.__('is cancelled by others');
    case 'warned':
      return trans.__('may soon be paused for others');
    case 'paused':
      return trans.__('is paused by or for others');
    case 'resumed':
      return trans.__('runs again');
  }
}
