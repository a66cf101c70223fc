/** What holds for whom: rules for everybody, and the rules for the jobs of each project with their sources. */
import { useCallback, useEffect, useMemo, useState, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { PolicyView, PoolFile, RuleView } from '../model/api';
import type { Client } from '../model/client';
import type { PoolState } from '../model/state';
import { Card } from './card';
import { entryOf, fieldsOf } from './draft';
import { PolicyDialog, type Subject } from './policydialog';
import { poolRules, type PoolRule } from './poolrules';
import { asTree } from './projects';
import { inWords, policyRules, ruleAt, type Rule } from './rules';
import { Table } from './table';

interface Found {
  file: PoolFile;
  policies: readonly PolicyView[];
}

export function PoliciesView({ client, state }: { client: Client; state: PoolState }): ReactElement {
  const trans = useTrans();
  const [found, setFound] = useState<Found | null>(null);
  const [problem, setProblem] = useState<string | null>(null);
  const [edited, setEdited] = useState<PoolRule | PolicyView | null>(null);
  const load = useCallback(async () => {
    try {
      const [{ file }, policies] = await Promise.all([client.seenPoolFile(), client.policies()]);
      setFound({ file, policies });
      setProblem(null);
    } catch (error) {
      setProblem((error as Error).message);
    }
  }, [client]);
  // Read again when a rule of a project changes, which others may do, too.
  const projects = useMemo(
    () => JSON.stringify(state.projects.map(({ name, parent, policy }) => [name, parent, policy])),
    [state.projects]
  );
  useEffect(() => void load(), [load, projects]);
  const close = (applied: boolean) => {
    setEdited(null);
    if (applied) {
      void load();
    }
  };
  return (
    <>
      <Card title={trans.__('Policies')} aside={trans.__('hold for everybody')}>
        {problem && (
          <p className="runai-Empty" role="alert">
            {problem}{' '}
            <button type="button" className="runai-Link" onClick={() => void load()}>
              {trans.__('Retry')}
            </button>
          </p>
        )}
        {!found && !problem && <p className="runai-Empty">{trans.__('Loading the policies…')}</p>}
        {found && <PoolRules file={found.file} edit={setEdited} />}
      </Card>
      {found && (
        <Card title={trans.__('Rules for jobs')} aside={trans.__('the nearest default and the strictest limit apply')}>
          <JobRules found={found} state={state} edit={setEdited} />
        </Card>
      )}
      {edited && 'rules' in edited && 'words' in edited && (
        <PolicyDialog
          title={edited.title}
          rules={edited.rules}
          jobs={state.jobs}
          load={() => poolSubject(client)}
          close={close}
        />
      )}
      {edited && 'project' in edited && (
        <PolicyDialog
          title={
            edited.project === null
              ? trans.__('Rules for the jobs of all projects')
              : trans.__('Rules for the jobs of %1', edited.project)
          }
          rules={policyRules(trans)}
          jobs={state.jobs}
          load={async () => (edited.project === null ? policySubject(client) : projectSubject(client, edited.project))}
          close={close}
        />
      )}
    </>
  );

  async function projectSubject(of: Client, name: string): Promise<Subject<PoolFile['policy']>> {
    const { view, version } = await of.project(name);
    return {
      now: view.policy,
      put: async (policy, preview) => {
        const entry = { ...entryOf(fieldsOf(view), view, trans), policy };
        return preview ? of.previewProject(entry, false) : of.putProject(entry, version);
      }
    };
  }
}

async function poolSubject(client: Client): Promise<Subject<PoolFile>> {
  const { file, version } = await client.seenPoolFile();
  return { now: file, put: (next, preview) => client.applyPool({ file: next, version }, preview) };
}

async function policySubject(client: Client): Promise<Subject<PoolFile['policy']>> {
  const { file, version } = await client.seenPoolFile();
  return {
    now: file.policy,
    put: (policy, preview) => client.applyPool({ file: { ...file, policy }, version }, preview)
  };
}

interface PoolRulesProps {
  file: PoolFile;
  edit: (rule: PoolRule) => void;
}

function PoolRules({ file, edit }: PoolRulesProps): ReactElement {
  const trans = useTrans();
  return (
    <Table
      columns={[{ title: trans.__('For') }, { title: trans.__('What holds'), className: 'runai-Table-text' }]}
      edit
    >
      {poolRules(trans).map(rule => (
        <tr key={rule.title}>
          <th scope="row">{rule.title}</th>
          <td className="runai-Table-text runai-Table-words">{rule.words(file)}</td>
          <td className="runai-Table-edit">
            <Edit what={rule.title} run={() => edit(rule)} />
          </td>
        </tr>
      ))}
    </Table>
  );
}

interface JobRulesProps {
  found: Found;
  state: PoolState;
  edit: (policy: PolicyView) => void;
}

function JobRules({ found, state, edit }: JobRulesProps): ReactElement {
  const trans = useTrans();
  const rules = policyRules(trans);
  const depths = new Map(asTree(state.projects).map(({ project, depth }) => [project.name, depth]));
  const order = ['', ...depths.keys()];
  const policies = [...found.policies].sort((a, b) => order.indexOf(a.project ?? '') - order.indexOf(b.project ?? ''));
  const row = (policy: PolicyView) => {
    const name = policy.project ?? trans.__('All projects');
    const held = rules.flatMap((rule): [Rule, RuleView][] => {
      const view = ruleAt(policy, rule);
      return view ? [[rule, view]] : [];
    });
    return (
      <tr key={name}>
        <th scope="row" style={{ paddingLeft: `${8 + 16 * (depths.get(policy.project ?? '') ?? 0)}px` }}>
          {name}
        </th>
        <td className="runai-Table-text runai-Table-words">
          {held.map(([rule, view]) => (
            <div key={rule.label}>
              {rule.label} {inWords(rule, view.value, trans)}{' '}
              {view.source !== policy.project && (
                <span className="runai-Hint">
                  {view.source === null ? trans.__('from all projects') : trans.__('from %1', view.source)}
                </span>
              )}
            </div>
          ))}
          {held.length === 0 && <span className="runai-Hint">{trans.__('no rules')}</span>}
        </td>
        <td className="runai-Table-edit">
          <Edit what={trans.__('the rules of %1', name)} run={() => edit(policy)} />
        </td>
      </tr>
    );
  };
  const columns = [{ title: trans.__('Project') }, { title: trans.__('Rules'), className: 'runai-Table-text' }];
  return (
    <Table columns={columns} edit>
      {policies.map(row)}
    </Table>
  );
}

function Edit({ what, run }: { what: string; run: () => void }): ReactElement {
  const trans = useTrans();
  return (
    <button type="button" className="runai-Link" aria-label={trans.__('Edit %1', what)} onClick={run}>
      {trans.__('Edit…')}
    </button>
  );
}
