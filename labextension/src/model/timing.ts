/** The delays and limits of the pool model. */
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
  // The default until the stream says how often it sends heartbeats.
  silence: 12_000,
  hidden: 60_000,
  gather: 40,
  figures: 500,
  shows: 300
};

/** Heartbeat intervals without data before reconnecting: a proxy may keep a connection open whose other end is gone. */
export const HEARTBEATS = 2.4;

/** The minimum pause between two reads of the pool, as a multiple of the last read's duration. */
export const REST = 10;

/** The number of jobs per page. */
export const PAGE = 200;

/** The number of waiting jobs whose queue positions are kept up to date. */
export const MOST_SHOWN = 200;

/** Waits until the page is visible or the model is disposed. */
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
