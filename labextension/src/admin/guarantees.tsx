/** The guarantees of a what-if simulation: a row for each project, and an empty one for the next. */
import { useId, type ReactElement } from 'react';
import { useTrans } from '../components/hooks';
import { Choice } from './choice';

/** A project and its guaranteed GPUs, as typed. */
export type Guarantee = readonly [project: string, gpus: string];

interface GuaranteesProps {
  projects: readonly string[];
  value: readonly Guarantee[];
  set: (value: Guarantee[]) => void;
}

export function Guarantees({ projects, value, set }: GuaranteesProps): ReactElement {
  const trans = useTrans();
  const id = useId();
  const chosen = value.map(([project]) => project);
  const rows = chosen.length < projects.length ? [...value, ['', ''] as const] : value;
  const change = (at: number, guarantee: Guarantee) =>
    set(rows.map((row, place) => (place === at ? guarantee : row)).filter(([project]) => project));
  return (
    <div className="runai-WhatIf-guarantees">
      {rows.map(([project, gpus], at) => (
        <div key={at} className="runai-WhatIf-guarantee">
          <div className="runai-Editor-field">
            <label htmlFor={`${id}-${at}`}>{trans.__('Guarantee of')}</label>
            <Choice
              id={`${id}-${at}`}
              value={project}
              values={['', ...projects.filter(one => one === project || !chosen.includes(one))]}
              name={one => one || (at > 0 ? trans.__('no other project') : trans.__('no project'))}
              set={one => change(at, [one, gpus])}
            />
          </div>
          <div className="runai-Editor-field">
            <label htmlFor={`${id}-${at}-gpus`}>
              {project ? trans.__('Guaranteed GPUs of %1', project) : trans.__('Guaranteed GPUs')}
            </label>
            <input
              id={`${id}-${at}-gpus`}
              inputMode="decimal"
              disabled={!project}
              value={gpus}
              onChange={event => change(at, [project, event.target.value])}
            />
          </div>
        </div>
      ))}
    </div>
  );
}
