/** The project tree: each project's guarantee and its current use. */
import { useState, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { PoolView, ProjectView } from '../model/api';
import { amount } from '../model/format';
import type { Client } from '../model/client';
import type { PoolState } from '../model/state';
import { Card } from './card';
import { ProjectDialog } from './projectdialog';
import { asTree } from './projects';
import { Table } from './table';
import { windowWords } from './windows';

export interface ProjectsViewProps {
  client: Client;
  state: PoolState;
  pool: PoolView;
}

export function ProjectsView({ client, state, pool }: ProjectsViewProps): ReactElement {
  const trans = useTrans();
  const admin = state.me?.admin ?? false;
  const [edited, setEdited] = useState<{ name: string | null } | null>(null);
  const or = (value: number | null, none: string) => (value === null ? none : amount(value));
  const columns = [
    { title: trans.__('Project') },
    { title: trans.__('Guarantee') },
    { title: trans.__('Limit') },
    { title: trans.__('Weight'), className: 'runai-Wide' },
    { title: trans.__('Priority'), className: 'runai-Wide' },
    { title: trans.__('Order'), className: 'runai-Wide' },
    { title: trans.__('Allocated') },
    { title: trans.__('Fair share') },
    { title: trans.__('Running') },
    { title: trans.__('Queue') },
    { title: trans.__('Members and groups'), className: 'runai-Table-text runai-Wide' }
  ];
  return (
    <Card
      title={trans.__('Projects')}
      aside={
        admin && (
          <button type="button" className="runai-Button" onClick={() => setEdited({ name: null })}>
            {trans.__('New project')}
          </button>
        )
      }
    >
      <Table columns={columns} edit={admin}>
        {asTree(state.projects).map(({ project, depth }) => (
          <tr key={project.name}>
            <th scope="row" style={{ paddingLeft: `${8 + 16 * depth}px` }}>
              {project.name}
            </th>
            <td>
              {or(project.guaranteed_in_all, trans.__('any'))}
              {project.windows.map(window => (
                <div key={windowWords(window, trans)} className="runai-Hint runai-Table-window">
                  {windowWords(window, trans)}
                </div>
              ))}
            </td>
            <td>{or(project.limit, '–')}</td>
            <td className="runai-Wide">{or(project.weight, '–')}</td>
            <td className="runai-Wide">{project.priority}</td>
            <td className="runai-Wide">{project.order ?? '–'}</td>
            <td>{amount(project.allocated)}</td>
            <td>{amount(project.fair_share)}</td>
            <td>{project.running}</td>
            <td>{project.waiting}</td>
            <td className="runai-Table-text runai-Wide runai-Table-people">
              {people(project, trans.__('everybody')) || '–'}
            </td>
            {admin && (
              <td className="runai-Table-edit">
                <button
                  type="button"
                  className="runai-Link"
                  aria-label={trans.__('Edit %1', project.name)}
                  onClick={() => setEdited({ name: project.name })}
                >
                  {trans.__('Edit')}
                </button>
              </td>
            )}
          </tr>
        ))}
      </Table>
      {edited && (
        <ProjectDialog client={client} state={state} pool={pool} name={edited.name} close={() => setEdited(null)} />
      )}
    </Card>
  );
}

/** Who may submit jobs to a project: its members, then its groups. */
export function people(project: ProjectView, everybody: string): string {
  const members = project.members.map(member => (member === '*' ? everybody : member));
  return [...members, ...project.groups.map(group => `@${group}`)].join(', ');
}
