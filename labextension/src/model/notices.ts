/** Where a user is told of their jobs outside the browser: the choice, until it is saved. */
import { Signal } from '@lumino/signaling';
import type { NoticeChannel, NoticeKind, NoticesTested, NoticesView } from './api';
import { refusalOf, type Refusal } from './asked';
import type { Client } from './client';
import { PoolError } from './transport';

export interface NoticesState {
  channel: NoticeChannel;
  /** Empty: the saved one of the channel is kept. */
  address: string;
  events: ReadonlySet<NoticeKind>;
  /** The shortest time, from submission to end, after which a success is told. */
  minutes: string;
  /** As the service has it. */
  saved: NoticesView;
  busy: boolean;
  refusal: Refusal | null;
  tested: NoticesTested | null;
}

export class Notices {
  constructor(
    private readonly _client: Client,
    saved: NoticesView
  ) {
    this._state = { ...read(saved), busy: false, refusal: null, tested: null };
  }

  get state(): NoticesState {
    return this._state;
  }

  get changed(): Signal<this, void> {
    return this._changed;
  }

  /** A field that the user has changed. */
  set(change: Partial<Pick<NoticesState, 'channel' | 'address' | 'events' | 'minutes'>>): void {
    const other = change.channel !== undefined && change.channel !== this._state.channel;
    const address = other ? { address: own(this._state.saved, change.channel!) } : {};
    this._put({ ...address, ...change, refusal: null, tested: null });
  }

  /** Returns whether it was saved. */
  async save(): Promise<boolean> {
    return this._try(async () => {});
  }

  /** Saves the choice and sends a test by it. */
  async test(): Promise<void> {
    await this._try(async () => this._put({ tested: await this._client.testNotices() }));
  }

  private async _try(then: () => Promise<void>): Promise<boolean> {
    const { channel, address, events, minutes } = this._state;
    this._put({ busy: true, refusal: null, tested: null });
    try {
      const saved = await this._client.chooseNotices({
        channel,
        events: [...events],
        shortest_success: 60 * Number(minutes),
        address: address.trim() || null
      });
      this._put(read(saved));
      await then();
      return true;
    } catch (error) {
      if (!(error instanceof PoolError)) {
        throw error;
      }
      this._put({ refusal: refusalOf(error) });
      return false;
    } finally {
      this._put({ busy: false });
    }
  }

  private _put(change: Partial<NoticesState>): void {
    this._state = { ...this._state, ...change };
    this._changed.emit();
  }

  private _state: NoticesState;
  private readonly _changed = new Signal<this, void>(this);
}

function read(saved: NoticesView) {
  const { channel } = saved;
  const minutes = String(Number((saved.shortest_success / 60).toFixed(2)));
  return { saved, channel, address: own(saved, channel), events: new Set(saved.events), minutes };
}

/** The saved address, if it is of this channel and no secret. */
function own(saved: NoticesView, channel: NoticeChannel): string {
  return channel === 'email' && saved.channel === channel ? saved.address : '';
}
