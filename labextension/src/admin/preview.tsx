/** The effects of a change to the pool, as sentences. */
import type { ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { Applied, Change, EffectView, JobView } from '../model/api';
import { amount, gpus } from '../model/format';
import type { Trans } from '../trans';
import { ruleOfChange } from './poolrules';
import { inWords } from './rules';

export interface PreviewProps {
  found: Applied;
  jobs: ReadonlyMap<string, JobView>;
}

export function Preview({ found, jobs }: PreviewProps): ReactElement {
  const trans = useTrans();
  const lines = found.changes.flatMap(change => changeWords(change, trans));
  return (
    <div className="runai-Preview">
      {lines.length > 0 ? (
        <ul className="runai-List">
          {lines.map(line => (
            <li key={line}>{line}</li>
          ))}
        </ul>
      ) : (
        <p>{trans.__('Nothing would change.')}</p>
      )}
      <h3>{trans.__('Jobs')}</h3>
      {found.effects.length > 0 ? (
        <ul className="runai-List">
          {found.effects.map(effect => (
            <li key={effect.action + effect.project} data-effect={effect.action}>
              {effectWords(effect, trans)} <span className="runai-Hint">{namesOf(effect, jobs)}</span>
            </li>
          ))}
        </ul>
      ) : (
        <p>{trans.__('No job would be stopped, moved, resized or started now.')}</p>
      )}
      {found.warnings.map(warning => (
        <p key={warning} className="runai-Preview-warning">
          {warning}
        </p>
      ))}
    </div>
  );
}

/** `vision: guaranteed 2 → 4`, one line per key; an added or removed project is one line. */
export function changeWords(change: Change, trans: Trans): string[] {
  if (change.action === 'add') {
    return [trans.__('%1 is added.', change.name)];
  }
  if (change.action === 'remove') {
    return [trans.__('%1 is removed.', change.name)];
  }
  return Object.entries(change.after ?? {}).map(([key, value]) => {
    const before = change.before?.[key];
    return (
      nodeWords(key, value, trans) ??
      ruleWords(change, key, before, value, trans) ??
      `${change.name}: ${key.replace(/_/g, ' ')} ${valueWords(before, trans)} → ${valueWords(value, trans)}`
    );
  });
}

/** Of a rule as the page names it: `Idle notebook servers: Warn after 0 s → 2 h`. */
function ruleWords(change: Change, key: string, before: unknown, after: unknown, trans: Trans): string | null {
  const found = ruleOfChange(change.kind, key, trans);
  if (found === null) {
    return null;
  }
  const [was, will] = [before, after].map(value => inWords(found.rule, value, trans));
  return `${found.title ?? change.name}: ${found.rule.label} ${was} → ${will}`;
}

/** Of a node that is drained or moved. */
function nodeWords(key: string, value: unknown, trans: Trans): string | null {
  const [, what, node] = /^(drained|moved)\.(.*)$/.exec(key) ?? [];
  switch (what) {
    case 'drained':
      if (value === null) {
        return trans.__('%1 takes work again.', node);
      }
      return value ? trans.__('%1 is drained: %2', node, value) : trans.__('%1 is drained.', node);
    case 'moved':
      return value === null
        ? trans.__('%1 returns to its own node pool.', node)
        : trans.__('%1 moves to the node pool %2.', node, value);
  }
  return null;
}

function valueWords(value: unknown, trans: Trans): string {
  if (value === null || value === undefined) {
    return trans.__('none');
  }
  if (Array.isArray(value)) {
    const each = value.map(one => (typeof one === 'object' ? JSON.stringify(one) : String(one)));
    return each.join(', ') || trans.__('nobody');
  }
  return typeof value === 'number' ? amount(value) : typeof value === 'object' ? JSON.stringify(value) : String(value);
}

export function effectWords(effect: EffectView, trans: Trans): string {
  const who = trans._n(
    '%1 job of %2 (%3)',
    '%1 jobs of %2 (%3)',
    effect.jobs,
    effect.project,
    gpus(effect.gpus, trans)
  );
  const does: Record<EffectView['action'], string> = {
    stop: trans.__('%1 would stop and queue again:', who),
    move: trans.__('%1 would move to other GPUs:', who),
    resize: trans.__('%1 would continue with a different number of workers:', who),
    start: trans.__('%1 would start:', who)
  };
  return does[effect.action];
}

function namesOf(effect: EffectView, jobs: ReadonlyMap<string, JobView>): string {
  const names = effect.ids.map(id => {
    const job = jobs.get(id);
    return job ? `${job.name} (${job.user})` : id;
  });
  return names.join(', ') + (effect.jobs > effect.ids.length ? ', …' : '');
}
