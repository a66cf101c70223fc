/** The command and options of a job, as its owner submitted them. */
import { useEffect, useState, type ReactElement } from 'react';
import type { GitSubmit, JobSubmit } from '../model/api';
import type { Client } from '../model/client';
import { duration, gib } from '../model/format';
import { OPTIONS } from '../model/options';
import type { Trans } from '../trans';
import { useTrans } from './hooks';

type Sent = Partial<JobSubmit>;

export function useSubmissionOf(client: Client, id: string, mine: boolean): Sent | null {
  const [sent, setSent] = useState<Sent | null>(null);
  useEffect(() => {
    let current = true;
    if (mine) {
      // On an error the view shows less; the log beside it reports the error.
      client.submission(id).then(
        told => current && setSent(told),
        () => undefined
      );
    }
    return () => {
      current = false;
    };
  }, [client, id, mine]);
  return sent;
}

/** The command and the options that differ from the defaults, as labels and texts. */
export function settingsOf(sent: Sent, trans: Trans): [string, string][] {
  const env = Object.keys(sent.env ?? {});
  const named = OPTIONS.filter(option => option.name in sent && !SHOWN.has(option.name)).map(
    (option): [string, string] => {
      const text = textOf(option.name, sent[option.name as keyof Sent], trans);
      return [
        trans.__(option.label),
        text === option.standard || standard(sent, option.name, option.standard) ? '' : text
      ];
    }
  );
  const parameters = Object.entries(sent.parameters ?? {}).map(([name, value]) => `${name}=${value}`);
  const settings: [string, string][] = [
    ...named,
    [trans.__('Parameters'), parameters.join(', ')],
    // Values may be secrets, and others may see the screen.
    [trans.__('Environment'), env.join(', ')],
    [trans.__('Git'), sent.git ? commitOf(sent.git, trans) : '']
  ];
  return settings.filter(([, text]) => text);
}

/** `a1b2c3d on main, 2 files changed` */
function commitOf({ commit, branch, changed }: GitSubmit, trans: Trans): string {
  const short = commit.slice(0, 7);
  const where = branch ? trans.__('%1 on %2', short, branch) : short;
  return changed ? trans._n('%2, %1 file changed', '%2, %1 files changed', changed, where) : where;
}

/** Whether an option equals its default. */
function standard(sent: Sent, name: string, text: string): boolean {
  const value = sent[name as keyof Sent];
  return `${String(value)}s` === text || (name === 'min_workers' && value === sent.workers);
}

/** Options that the view shows elsewhere. */
const SHOWN = new Set(['name', 'project', 'env', 'parameters', 'groups']);
const DURATIONS = new Set(['min_runtime', 'max_runtime', 'idle_timeout', 'expected_runtime', 'grace']);
const MEMORY = new Set(['memory_gib', 'gpu_memory_gib']);
const NOTHING: readonly unknown[] = [null, undefined, 0, 'none'];

function textOf(name: string, value: unknown, trans: Trans): string {
  if (name === 'preemptible') {
    return value ? '' : trans.__('no');
  }
  if (Array.isArray(value)) {
    return value.join(', ');
  }
  if (NOTHING.includes(value) && name !== 'gpus') {
    return '';
  }
  if (typeof value === 'number' && DURATIONS.has(name)) {
    return duration(value, trans);
  }
  return typeof value === 'number' && MEMORY.has(name) ? gib(value, trans) : String(value);
}

export function Command({ sent }: { sent: Sent }): ReactElement {
  const trans = useTrans();
  const words = (sent.command ?? []).map(word => (/^[\w./+@%:=,{}-]+$/.test(word) ? word : JSON.stringify(word)));
  return (
    <pre className="runai-Command" aria-label={trans.__('Command')} tabIndex={0}>
      {words.join(' ')}
    </pre>
  );
}
