/**
 * Wakes those who read what running jobs write, when there is more: the event stream says so, and nothing is polled.
 * What must hold: what is written after a reader has looked, or that it could not see, wakes it.
 */
import { Signal } from '@lumino/signaling';
import type { Event as PoolEvent, ViewWritten } from './api';

/** What a job has `printed` is in its log and displays, what it has `reported` in its metrics. */
export type What = 'printed' | 'reported';

interface Reader {
  readonly job: string;
  readonly what: What;
  readonly wake: () => void;
}

/** Waits until it has rung since it was waited for last. */
export class Alarm {
  ring(): void {
    this._rung = true;
    this._wake?.();
  }

  async next(signal: AbortSignal): Promise<void> {
    if (!this._rung && !signal.aborted) {
      await new Promise<void>(resolve => {
        this._wake = resolve;
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
    this._rung = false;
  }

  private _rung = false;
  private _wake: (() => void) | undefined;
}

export class Written {
  /** Other jobs are read now. */
  readonly changed = new Signal<this, void>(this);

  /** The jobs that are read. */
  get jobs(): readonly string[] {
    return [...new Set([...this._readers].map(reader => reader.job))];
  }

  /** Calls `wake` when the job may have written more, until the returned function is called. */
  listen(job: string, what: What, wake: () => void): () => void {
    const reader = { job, what, wake };
    this._readers.add(reader);
    this.changed.emit();
    return () => {
      this._readers.delete(reader);
      this.changed.emit();
    };
  }

  /** An alarm that rings when the job may have written more, until the signal aborts. */
  alarm(job: string, what: What, signal: AbortSignal): Alarm {
    const alarm = new Alarm();
    signal.addEventListener(
      'abort',
      this.listen(job, what, () => alarm.ring()),
      { once: true }
    );
    return alarm;
  }

  /** Takes an event of the stream. A stream that begins says that some may have been missed. */
  take(event: PoolEvent): void {
    if (event.kind === 'view.written') {
      const { printed, reported } = event.data as unknown as ViewWritten;
      this._wake(({ job, what }) => (what === 'printed' ? printed : reported).includes(job));
    } else if (event.kind === 'stream.begin') {
      this._wake(() => true);
    }
  }

  /** These jobs may have written, or are in another state, or somebody can see them now. */
  ring(jobs: readonly string[]): void {
    this._wake(({ job }) => jobs.includes(job));
  }

  private _wake(whose: (reader: Reader) => boolean): void {
    [...this._readers].filter(whose).forEach(reader => reader.wake());
  }

  private readonly _readers = new Set<Reader>();
}
