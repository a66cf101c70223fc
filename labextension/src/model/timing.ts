/** The delays of the model of the pool. */
/** In milliseconds. */
export interface Timing {
  firstDelay: number;
  longestDelay: number;
  refusedDelay: number;
  silence: number;
  hidden: number;
  gather: number;
  figures: number;
  shows: number;
}

export const TIMING: Timing = {
  firstDelay: 500,
  longestDelay: 8_000,
  refusedDelay: 30_000,
  // Until the stream says how often it sends a heartbeat.
  silence: 12_000,
  hidden: 60_000,
  gather: 40,
  figures: 500,
  shows: 300
};

/** Waits until somebody can see the page, or the model is disposed. */
export function untilShown(disposed: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    const look = () => {
      if (!document.hidden || disposed.aborted) {
        document.removeEventListener('visibilitychange', look);
        resolve();
      }
    };
    document.addEventListener('visibilitychange', look);
    look();
  });
}
