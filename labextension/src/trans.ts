/** The parts of JupyterLab's translation bundle used here: the administrator's page runs without JupyterLab. */
export interface Trans {
  __(text: string, ...args: unknown[]): string;
  _n(singular: string, plural: string, count: number, ...args: unknown[]): string;
}

function fill(text: string, args: unknown[]): string {
  return text.replace(/%(\d+)/g, (_, place: string) => String(args[Number(place) - 1] ?? ''));
}

/** Untranslated texts: English. */
export const plain: Trans = {
  __: (text, ...args) => fill(text, args),
  _n: (singular, plural, count, ...args) => fill(count === 1 ? singular : plural, [count, ...args])
};
