import { describe, expect, it } from 'vitest';
import { aJob } from '../../__tests__/scheduler';
import { words } from '../../admin/decisions';
import { plain } from '../../trans';
import type { AttemptView, JobView } from '../api';
import { decisionsOf } from '../decisions';

function attempt(change: Partial<AttemptView> = {}): AttemptView {
  return {
    number: 1,
    created: 2000,
    started: 2001,
    stopping: null,
    ended: null,
    workers: [{ rank: 0, node: 'n2', gpus: [0, 1], share: 1 }],
    exit_codes: [],
    reason: '',
    ending: null,
    ...change
  };
}

const said = (jobs: JobView[], most = 6) =>
  decisionsOf(jobs, most).map(one => `${one.at} ${one.jobs.map(job => job.name).join(', ')} ${words(one, plain)}`);
const running = (id: string, change: Partial<JobView> = {}) =>
  aJob(id, { state: 'running', attempts: [attempt()], ...change });

describe('the decisions', () => {
  it.each<[string, Partial<JobView>, string[]]>([
    [
      'a start within the guarantee',
      { state: 'running', attempts: [attempt()] },
      ['2000 job-a started on n2 (2 GPUs), within the project’s guarantee.']
    ],
    [
      'a start over quota, on a part of a GPU',
      {
        state: 'running',
        over_quota: true,
        attempts: [attempt({ workers: [{ rank: 0, node: 'n2', gpus: [0], share: 0.5 }] })]
      },
      ['2000 job-a started on n2 (0.5 GPUs), over quota.']
    ],
    [
      'a start without a GPU',
      { state: 'running', attempts: [attempt({ workers: [{ rank: 0, node: 'n2', gpus: [], share: 1 }] })] },
      ['2000 job-a started on n2 (no GPU).']
    ],
    [
      'a pause for somebody, and the resumption',
      {
        state: 'running',
        attempts: [
          attempt({ stopping: 3000, ended: 3004, ending: 'preempted', reason: 'Project nlp reclaims GPUs for bert.' }),
          attempt({ number: 2, created: 4000 })
        ]
      },
      [
        '4000 job-a resumed on n2 (2 GPUs), within the project’s guarantee.',
        '3000 job-a was paused: Project nlp reclaims GPUs for bert.',
        '2000 job-a started on n2 (2 GPUs).'
      ]
    ],
    [
      'a job that grew, whose next attempt is no start of its own',
      {
        state: 'running',
        attempts: [
          attempt({
            stopping: 3000,
            ended: 3004,
            ending: 'resized',
            reason: 'Grew from 2 to 4 workers: GPUs are idle.'
          }),
          attempt({ number: 2, created: 3004 })
        ]
      },
      ['3000 job-a grew from 2 to 4 workers: GPUs are idle.', '2000 job-a started on n2 (2 GPUs).']
    ],
    [
      'a stop by a policy',
      {
        state: 'failed',
        ended: 3001,
        attempts: [attempt({ stopping: 3000, ended: 3001, ending: 'idle', reason: 'Its GPUs were idle for 2 h.' })]
      },
      ['3000 job-a was stopped: Its GPUs were idle for 2 h.', '2000 job-a started on n2 (2 GPUs).']
    ],
    [
      'the loss of a worker',
      { state: 'queued', attempts: [attempt({ ended: 3001, ending: 'lost', reason: 'The node n2 is gone.' })] },
      ['3001 job-a lost a worker: The node n2 is gone.', '2000 job-a started on n2 (2 GPUs).']
    ],
    ['a wait', { reason: 'Needs 4 GPUs; 2 are free.' }, ['1000 job-a waits: Needs 4 GPUs; 2 are free.']]
  ])('tell of %s', (_, change, expected) => {
    expect(said([aJob('a', change)])).toEqual(expected);
  });

  it('do not tell what people did, or how programs ended', () => {
    const ends = (['stopped', 'succeeded', 'failed'] as const).map(ending =>
      aJob(ending, { state: 'paused', attempts: [attempt({ stopping: 3000, ended: 3001, ending })] })
    );
    expect(said(ends)).toEqual(['2000 job-stopped, job-succeeded, job-failed started on n2 (6 GPUs).']);
  });

  it('are one where several jobs of a project start together, or are paused for the same reason', () => {
    const jobs = [
      running('a', { attempts: [attempt({ created: 2030 })] }),
      running('b', {
        over_quota: true,
        attempts: [attempt({ workers: [{ rank: 0, node: 'n3', gpus: [0], share: 1 }] })]
      }),
      running('c', { project: 'nlp' }),
      running('d', { attempts: [attempt({ created: 1900 })] })
    ];
    expect(said(jobs)).toEqual([
      '2030 job-a, job-b started on n2 and n3 (3 GPUs), 1 of them over quota.',
      '2000 job-c started on n2 (2 GPUs), within the project’s guarantee.',
      '1900 job-d started on n2 (2 GPUs), within the project’s guarantee.'
    ]);
    const why = { ended: 3004, ending: 'preempted' as const, reason: 'The guarantee of project nlp rises.' };
    const paused = Array.from({ length: 40 }, (_, n) =>
      aJob(`p${n}`, { attempts: [attempt({ ...why, created: 3000 - 100 * n, stopping: 5000 - n / 10 })] })
    );
    const [first] = decisionsOf(paused, 6);
    expect([first!.jobs.length, words(first!, plain)]).toEqual([
      40,
      'were paused: The guarantee of project nlp rises.'
    ]);
  });

  it('say of all jobs of a project that wait what the first in line waits for', () => {
    const jobs = [3, 1, 2].map(position =>
      aJob(`${position}`, { position, submitted: 1000 + position, reason: `Number ${position} waits for GPUs.` })
    );
    expect(said(jobs)).toEqual(['1003 job-1, job-3, job-2 wait: Number 1 waits for GPUs.']);
  });

  it('are bounded, with the newest first', () => {
    const jobs = Array.from({ length: 50 }, (_, n) => running(`${n}`, { attempts: [attempt({ created: 1000 * n })] }));
    expect(said(jobs, 3).map(line => line.split(' ')[0])).toEqual(['49000', '48000', '47000']);
  });
});
