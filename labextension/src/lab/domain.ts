/** The translation domain. */
export const DOMAIN = 'jupyter_runai';
