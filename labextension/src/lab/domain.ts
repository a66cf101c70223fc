/** The name under which translations are found. */
export const DOMAIN = 'jupyter_runai';
