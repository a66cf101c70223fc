/** A table with a heading for each column. */
import type { ReactElement, ReactNode } from 'react';

export interface Column {
  title: string;
  /** The CSS class of the column's cells. */
  className?: string | undefined;
  /** The order of the rows by this column, if they can be sorted by it. */
  sorted?: { current: 'asc' | 'desc' | null; toggle: () => void };
}

const ARIA = { asc: 'ascending', desc: 'descending' } as const;

export interface TableProps {
  columns: readonly Column[];
  /** Whether each row ends with buttons. */
  edit?: boolean;
  children: ReactNode;
}

export function Table({ columns, edit = false, children }: TableProps): ReactElement {
  return (
    <div className="runai-TableBox">
      <table className="runai-Table">
        <thead>
          <tr>
            {columns.map(({ title, className, sorted }) => (
              <th
                key={title}
                scope="col"
                className={className}
                aria-sort={sorted && (sorted.current ? ARIA[sorted.current] : 'none')}
              >
                {sorted ? (
                  <button type="button" className="runai-Table-sort" onClick={sorted.toggle}>
                    {title}
                  </button>
                ) : (
                  title
                )}
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
