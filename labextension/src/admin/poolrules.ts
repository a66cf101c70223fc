/** The rules that hold for everybody, as rows of a table: each in words, and with the rules that it is made of. */
import type { Change, PoolFile } from '../model/api';
import { amount, duration, gpus } from '../model/format';
import type { Trans } from '../trans';
import { policyRules, type Rule } from './rules';

export interface PoolRule {
  readonly title: string;
  readonly words: (file: PoolFile) => string;
  readonly rules: readonly Rule[];
}

export function poolRules(trans: Trans): PoolRule[] {
  const never = trans.__('never');
  const atOnce = trans.__('at once');
  const none = trans.__('no limit');
  const said = (seconds: number) => duration(seconds, trans);
  return [
    {
      title: trans.__('Idle notebook servers'),
      words: ({ settings }) =>
        settings.session_idle_timeout > 0 ? idleRules(settings, trans) : trans.__('not stopped'),
      rules: [
        {
          path: ['settings', 'session_idle_timeout'],
          label: trans.__('Warn after'),
          kind: 'duration',
          zero: never
        },
        { path: ['settings', 'session_idle_grace'], label: trans.__('Grace after the warning'), kind: 'duration' },
        {
          path: ['settings', 'session_idle_lend'],
          label: trans.__('Then lend the GPUs for'),
          kind: 'duration',
          zero: trans.__('not lent')
        },
        { path: ['settings', 'session_idle_action'], label: trans.__('Finally'), kind: 'idle' }
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
          zero: never
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
      rules: [
        { path: ['default_build_quota'], label: trans.__('GPUs for each user'), kind: 'amount' },
        {
          path: ['build_overcommit'],
          label: trans.__('Quotas may add up to more GPUs than there are'),
          kind: 'flag'
        }
      ]
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
      words: ({ settings }) => {
        if (settings.order !== 'served') {
          return trans.__('oldest first');
        }
        const ends = settings.service_levels.map(amount).join(', ');
        return ends
          ? trans.__('least served first, in levels that end at %1 GPU-hours', ends)
          : trans.__('least served first');
      },
      rules: [
        { path: ['settings', 'order'], label: trans.__('Order in a project'), kind: 'order' },
        {
          path: ['settings', 'service_levels'],
          label: trans.__('Service levels end at (GPU-hours)'),
          kind: 'amounts',
          hint: trans.__('Holds where the least served come first.')
        },
        {
          path: ['settings', 'patience'],
          label: trans.__('Return to the lowest level after waiting (times its run time)'),
          kind: 'amount',
          hint: trans.__('Holds where the least served come first.')
        }
      ]
    },
    {
      title: trans.__('Reclaiming GPUs'),
      words: ({ settings }) => {
        const most =
          settings.reclaim === 'guarantee'
            ? trans.__('up to the guarantee of a project')
            : trans.__('up to the fair share of a project');
        return settings.preemption_delay > 0
          ? trans.__('%1, by jobs that have waited for %2', most, said(settings.preemption_delay))
          : most;
      },
      rules: [
        { path: ['settings', 'reclaim'], label: trans.__('Reclaim up to'), kind: 'reclaim' },
        {
          path: ['settings', 'preemption_delay'],
          label: trans.__('A job waits before it reclaims'),
          kind: 'duration',
          zero: atOnce
        }
      ]
    },
    {
      title: trans.__('GPUs beyond guarantees'),
      words: ({ settings }) =>
        settings.surplus === 'served'
          ? trans.__('go to the jobs of all projects that were served least')
          : trans.__('are divided among projects by weight'),
      rules: [{ path: ['settings', 'surplus'], label: trans.__('Divide'), kind: 'surplus' }]
    },
    {
      title: trans.__('Recent use'),
      words: ({ settings }) =>
        settings.time_aware > 0
          ? trans.__(
              'lowers the share of a project in the surplus (weight %1); counts half as much after %2',
              amount(settings.time_aware),
              said(settings.usage_half_life)
            )
          : trans.__('does not count'),
      rules: [
        {
          path: ['settings', 'time_aware'],
          label: trans.__('Weight of recent use'),
          kind: 'amount',
          hint: trans.__('0: does not count; 1: who used twice their share get no surplus until others have caught up')
        },
        { path: ['settings', 'usage_half_life'], label: trans.__('Counts half as much after'), kind: 'duration' }
      ]
    },
    {
      title: trans.__('Reservations'),
      words: ({ settings }) =>
        settings.reservations > 0
          ? trans._n(
              'GPUs are reserved for %1 waiting job, which smaller ones must not delay',
              'GPUs are reserved for %1 waiting jobs, which smaller ones must not delay',
              settings.reservations
            )
          : trans.__('no GPUs are reserved for large jobs that wait'),
      rules: [
        {
          path: ['settings', 'reservations'],
          label: trans.__('Waiting jobs for which GPUs are reserved'),
          kind: 'count'
        }
      ]
    },
    {
      title: trans.__('Elastic jobs'),
      words: ({ settings }) =>
        settings.resize_interval > 0
          ? trans.__('get more workers once they have run for %1', said(settings.resize_interval))
          : trans.__('get more workers as soon as GPUs are free'),
      rules: [
        {
          path: ['settings', 'resize_interval'],
          label: trans.__('Run before getting more workers'),
          kind: 'duration',
          zero: atOnce
        }
      ]
    }
  ];
}

function idleRules(settings: PoolFile['settings'], trans: Trans): string {
  const said = (seconds: number) => duration(seconds, trans);
  const takes = settings.session_idle_action === 'take_back';
  const last = takes ? trans.__('lose their GPUs') : trans.__('stopped');
  const [timeout, grace] = [said(settings.session_idle_timeout), said(settings.session_idle_grace)];
  const rules = settings.session_idle_lend
    ? trans.__(
        'warned after %1 without use, GPUs lent %2 later for %3, then %4',
        timeout,
        grace,
        said(settings.session_idle_lend),
        last
      )
    : trans.__('warned after %1 without use, %3 %2 later', timeout, grace, last);
  const others = settings.session_idle_exceptions.length;
  return others ? trans._n('%2; %1 exception', '%2; %1 exceptions', others, rules) : rules;
}

/** The rule at a key of a change, such as `session_idle_grace` of the settings or `policy.maxima.gpus`. */
export function ruleOfChange(
  kind: Change['kind'],
  key: string,
  trans: Trans
): { title: string | null; rule: Rule } | null {
  const path = key.split('.');
  if (path[0] === 'policy') {
    const rule = policyRules(trans).find(one => one.path.join('.') === path.slice(1).join('.'));
    return rule ? { title: kind === 'pool' ? trans.__('All projects') : null, rule } : null;
  }
  if (kind !== 'settings' && kind !== 'pool') {
    return null;
  }
  const whole = kind === 'settings' ? `settings.${key}` : key;
  for (const { title, rules } of poolRules(trans)) {
    const rule = rules.find(one => one.path.join('.') === whole);
    if (rule) {
      return { title, rule };
    }
  }
  return null;
}
