/** A table of the page: a heading for each column, and its rows. */
import type { ReactElement, ReactNode } from 'react';

export interface Column {
  title: string;
  /** The class of its cells, too. */
  className?: string;
}

export interface TableProps {
  columns: readonly Column[];
  /** Whether its rows end with buttons. */
  edit?: boolean;
  children: ReactNode;
}

export function Table({ columns, edit = false, children }: TableProps): ReactElement {
  return (
    <div className="runai-TableBox">
      <table className="runai-Table">
        <thead>
          <tr>
            {columns.map(({ title, className }) => (
              <th key={title} scope="col" className={className}>
                {title}
              </th>
            ))}
            {edit && <th className="runai-Table-edit" />}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
