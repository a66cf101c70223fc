/** How long the model of the pool waits for what. */
/** How patient the model is, in milliseconds. */
export interface Patience {
  firstDelay: number;
  longestDelay: number;
  refusedDelay: number;
  silence: number;
  hidden: number;
  gather: number;
  figures: number;
  shows: number;
}

export const PATIENCE: Patience = {
  firstDelay: 500,
  longestDelay: 8_000,
  refusedDelay: 30_000,
  // Until the stream says how often it gives a sign of life.
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
