/** What goes along with a cell: the variables that it uses and the files of the folder, as its kernel estimates. */
import type { Trans } from '../trans';
import { bytes } from './format';

/** The most variables in the sentence. */
const SHOWN = 4;

export interface AlongVariable {
  name: string;
  type: string;
  size: { bytes: number; accuracy: 'exact' | 'about' | 'at least' };
}

/** The variables, the largest first; a sentence for each that cannot go along; whether the cell may save anything. */
export interface Along {
  variables: AlongVariable[];
  files: number;
  bytes: number;
  refused: string[];
  saves: boolean;
}

/** Why it cannot be said. */
export interface AlongUnknown {
  problem: string;
}

/** The kernel of a cell. */
export interface IAlongKernel {
  /**
   * What a cell would take along if it were sent now; null if the kernel cannot say it. Tells once by `waits` if the
   * kernel is not idle, and answers when it is.
   */
  goesAlong(line: string, cell: string, signal: AbortSignal, waits: () => void): Promise<Along | AlongUnknown | null>;
}

/** `about 1.2 GiB` */
export function sizeInWords({ size }: AlongVariable, trans: Trans): string {
  const text = bytes(size.bytes, trans);
  switch (size.accuracy) {
    case 'exact':
      return text;
    case 'about':
      return trans.__('about %1', text);
    case 'at least':
      return trans.__('at least %1', text);
  }
}

/** Whether the sentence leaves out variables. */
export function isShortened({ variables }: Along): boolean {
  return variables.length > SHOWN;
}

/** `Takes along df (DataFrame, about 1.2 GiB), lr (float, 10 B) and 3 files of this folder (12 KiB).` */
export function alongInWords(along: Along, trans: Trans): string {
  const parts = along.variables
    .slice(0, SHOWN)
    .map(variable => trans.__('%1 (%2, %3)', variable.name, variable.type, sizeInWords(variable, trans)));
  if (isShortened(along)) {
    parts.push(trans.__('%1 more', along.variables.length - SHOWN));
  }
  if (along.files) {
    const size = bytes(along.bytes, trans);
    parts.push(trans._n('%1 file of this folder (%2)', '%1 files of this folder (%2)', along.files, size));
  }
  const last = parts.pop();
  if (last === undefined) {
    return trans.__('Takes nothing along.');
  }
  return parts.length > 0
    ? trans.__('Takes along %1 and %2.', parts.join(', '), last)
    : trans.__('Takes along %1.', last);
}
