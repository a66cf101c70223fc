/** The rules that hold for everybody, as rows of a table: each in words, and with the rules that it is made of. */
import type { PoolFile } from '../model/api';
import { amount, duration, gpus } from '../model/format';
import type { Trans } from '../trans';
import type { Rule } from './rules';

export interface PoolRule {
  readonly title: string;
  readonly words: (file: PoolFile) => string;
  readonly rules: readonly Rule[];
}

export function poolRules(trans: Trans): PoolRule[] {
  const never = trans.__('0: never');
  const none = trans.__('no limit');
  const said = (seconds: number) => duration(seconds, trans);
  return [
    {
      title: trans.__('Idle notebook servers'),
      words: ({ settings }) =>
        settings.session_idle_timeout > 0
          ? trans.__(
              'warned after %1 without use, stopped %2 later',
              said(settings.session_idle_timeout),
              said(settings.session_idle_grace)
            )
          : trans.__('not stopped'),
      rules: [
        {
          path: ['settings', 'session_idle_timeout'],
          label: trans.__('Warn after'),
          kind: 'duration',
          hint: never
        },
        { path: ['settings', 'session_idle_grace'], label: trans.__('Stop after another'), kind: 'duration' }
      ]
    },
    {
      title: trans.__('Longest notebook server'),
      words: ({ settings }) =>
        settings.session_max_duration > 0
          ? trans.__('stopped after %1, used or not', said(settings.session_max_duration))
          : none,
      rules: [
        {
          path: ['settings', 'session_max_duration'],
          label: trans.__('Stop after'),
          kind: 'duration',
          hint: never
        }
      ]
    },
    {
      title: trans.__('GPUs for notebooks'),
      words: ({ default_build_quota, users, groups }) => {
        const own = users.length + groups.length;
        const each = trans.__('%1 for each user', gpus(default_build_quota, trans));
        return own
          ? trans._n(
              '%2; %1 user or group has its own quota',
              '%2; %1 users and groups have their own quotas',
              own,
              each
            )
          : each;
      },
      rules: [{ path: ['default_build_quota'], label: trans.__('GPUs for each user'), kind: 'amount' }]
    },
    {
      title: trans.__('Idle build GPUs'),
      words: ({ settings }) => (settings.lending ? trans.__('lent to preemptible jobs') : trans.__('not lent')),
      rules: [{ path: ['settings', 'lending'], label: trans.__('Lend to preemptible jobs'), kind: 'flag' }]
    },
    {
      title: trans.__('Jobs of a user'),
      words: ({ max_jobs_per_user: jobs, max_upload_gib_per_user: gib }) =>
        trans.__(
          '%1 unfinished jobs, %2 of uploaded files',
          jobs === null ? trans.__('any number of') : amount(jobs),
          gib === null ? trans.__('any amount') : trans.__('%1 GiB', amount(gib))
        ),
      rules: [
        { path: ['max_jobs_per_user'], label: trans.__('Unfinished jobs'), kind: 'count', empty: none },
        { path: ['max_upload_gib_per_user'], label: trans.__('Uploaded files (GiB)'), kind: 'count', empty: none }
      ]
    },
    {
      title: trans.__('Finished jobs'),
      words: ({ keep_days: days }) =>
        days === null ? trans.__('kept') : trans.__('deleted with their files after %1 days', amount(days)),
      rules: [{ path: ['keep_days'], label: trans.__('Delete after (days)'), kind: 'amount', empty: trans.__('never') }]
    },
    {
      title: trans.__('Order of jobs'),
      words: ({ settings }) =>
        settings.order === 'served' ? trans.__('least served first') : trans.__('oldest first'),
      rules: [{ path: ['settings', 'order'], label: trans.__('Order in a project'), kind: 'order' }]
    },
    {
      title: trans.__('Reclaiming GPUs'),
      words: ({ settings }) =>
        settings.reclaim === 'guarantee'
          ? trans.__('up to the guarantee of a project')
          : trans.__('up to the fair share of a project'),
      rules: [{ path: ['settings', 'reclaim'], label: trans.__('Reclaim up to'), kind: 'reclaim' }]
    }
  ];
}
