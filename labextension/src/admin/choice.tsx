/** A labelled choice between a few values. */
import type { ReactElement } from 'react';

interface ChoiceProps<T extends string> {
  /** Absent: an element with the choice’s `id` labels it. */
  label?: string;
  id?: string;
  value: T;
  values: readonly T[];
  name: (value: T) => string;
  set: (value: T) => void;
}

export function Choice<T extends string>({ label, id, value, values, name, set }: ChoiceProps<T>): ReactElement {
  return (
    <select id={id} aria-label={label} value={value} onChange={event => set(event.target.value as T)}>
      {values.map(one => (
        <option key={one} value={one}>
          {name(one)}
        </option>
      ))}
    </select>
  );
}
