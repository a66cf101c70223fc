/** The project tree, with the GPUs in use and the guarantee of each project. */
import type { ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import { QuotaBar, quotaWords } from '../components/quota';
import type { ProjectView } from '../model/api';
import { amount } from '../model/format';
import { Table } from './table';

export interface ProjectTableProps {
  projects: readonly ProjectView[];
  /** GPUs of the train pool: all bars end there, so that they can be compared. */
  pool: number;
}

export function ProjectTable({ projects, pool }: ProjectTableProps): ReactElement {
  const trans = useTrans();
  const size = Math.max(1, pool, ...projects.map(one => Math.max(one.guaranteed_in_all ?? 0, one.allocated)));
  const or = (value: number | null, none: string) => (value === null ? none : amount(value));
  const columns = [
    { title: trans.__('Project') },
    { title: trans.__('Allocated / guarantee'), className: 'runai-Table-bar' },
    { title: trans.__('Held') },
    { title: trans.__('Guarantee') },
    { title: trans.__('Limit') },
    { title: trans.__('Fair share') },
    { title: trans.__('Running') },
    { title: trans.__('Waiting') }
  ];
  return (
    <Table columns={columns}>
      {asTree(projects).map(({ project, depth }) => (
        <tr key={project.name}>
          <th scope="row" style={{ paddingLeft: `${8 + 16 * depth}px` }}>
            {project.name}
          </th>
          <td className="runai-Table-bar">
            <QuotaBar
              held={project.allocated}
              guaranteed={project.guaranteed_in_all}
              size={size}
              label={quotaWords(project, trans)}
            />
          </td>
          <td>{amount(project.allocated)}</td>
          <td>{or(project.guaranteed_in_all, trans.__('any'))}</td>
          <td>{or(project.limit, '–')}</td>
          <td>{amount(project.fair_share)}</td>
          <td>{project.running}</td>
          <td>{project.waiting}</td>
        </tr>
      ))}
    </Table>
  );
}

/** Parents before their children, each level sorted by name. */
export function asTree(projects: readonly ProjectView[]): { project: ProjectView; depth: number }[] {
  const names = new Set(projects.map(project => project.name));
  const below = (parent: string | null, depth: number): { project: ProjectView; depth: number }[] =>
    projects
      .filter(one => (one.parent !== null && names.has(one.parent) ? one.parent : null) === parent)
      .sort((a, b) => a.name.localeCompare(b.name))
      .flatMap(project => [{ project, depth }, ...below(project.name, depth + 1)]);
  return below(null, 0);
}
