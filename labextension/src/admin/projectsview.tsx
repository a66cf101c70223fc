/** The tree of projects: what each was given, and how it stands. */
import type { ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import type { PoolView, ProjectView } from '../model/api';
import { amount } from '../model/format';
import { Card } from './card';
import { asTree } from './projects';

export interface ProjectsViewProps {
  projects: readonly ProjectView[];
  pool: PoolView;
}

export function ProjectsView({ projects }: ProjectsViewProps): ReactElement {
  const trans = useTrans();
  const or = (value: number | null, none: string) => (value === null ? none : amount(value));
  return (
    <Card title={trans.__('Projects')}>
      <div className="runai-TableBox">
        <table className="runai-Table">
          <thead>
            <tr>
              <th scope="col">{trans.__('Project')}</th>
              <th scope="col">{trans.__('Guarantee')}</th>
              <th scope="col">{trans.__('Limit')}</th>
              <th scope="col" className="runai-Wide">
                {trans.__('Weight')}
              </th>
              <th scope="col" className="runai-Wide">
                {trans.__('Priority')}
              </th>
              <th scope="col" className="runai-Wide">
                {trans.__('Order')}
              </th>
              <th scope="col">{trans.__('Allocated')}</th>
              <th scope="col">{trans.__('Fair share')}</th>
              <th scope="col">{trans.__('Running')}</th>
              <th scope="col">{trans.__('Queue')}</th>
              <th scope="col" className="runai-Table-text runai-Wide">
                {trans.__('Members and groups')}
              </th>
            </tr>
          </thead>
          <tbody>
            {asTree(projects).map(({ project, depth }) => (
              <tr key={project.name}>
                <th scope="row" style={{ paddingLeft: `${8 + 16 * depth}px` }}>
                  {project.name}
                </th>
                <td>{or(project.guaranteed_in_all, trans.__('any'))}</td>
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
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

/** Who may send jobs to a project: its members, then its groups. */
export function people(project: ProjectView, everybody: string): string {
  const members = project.members.map(member => (member === '*' ? everybody : member));
  return [...members, ...project.groups.map(group => `@${group}`)].join(', ');
}
