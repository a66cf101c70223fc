/** What separates workloads that share a GPU, in words. */
import type { Trans } from '../trans';
import type { Isolation } from './api';

/** One sentence; empty where it is unknown. */
export function isolationWords(isolation: Isolation, trans: Trans): string {
  switch (isolation) {
    case 'mig':
      return trans.__('MIG instances have their own memory and processors.');
    case 'memory-limit':
      return trans.__('The driver limits the GPU memory of each part.');
    case 'mps':
      return trans.__('MPS limits the GPU memory of each process; an error in one can end the others.');
    case 'watcher':
      return trans.__('Work that uses more GPU memory than its part is warned and then ended.');
    case 'time-slicing':
      return trans.__('Nothing limits the GPU memory of a part.');
    default:
      return '';
  }
}
