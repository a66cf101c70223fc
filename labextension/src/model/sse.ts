/** Server-sent events from a `fetch` stream: `EventSource` can neither send a token nor report why it failed. */

export interface Message {
  /** The id of the latest event, to resume from. */
  id: string | null;
  event: string;
  /** Empty if only an id was sent: the position from which the stream starts. */
  data: string;
}

/** Parses text that arrives in arbitrary chunks into messages. */
export class MessageParser {
  push(text: string): Message[] {
    this._rest += text;
    const lines = this._rest.split(/\r?\n/);
    this._rest = lines.pop() ?? '';
    const messages: Message[] = [];
    for (const line of lines) {
      const message = this._line(line);
      if (message) {
        messages.push(message);
      }
    }
    return messages;
  }

  private _line(line: string): Message | null {
    if (line === '') {
      const message = this._told
        ? { id: this._id, event: this._event || 'message', data: this._data.join('\n') }
        : null;
      this._told = false;
      this._data = [];
      this._event = '';
      return message;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    this._told ||= field === 'data' || field === 'id';
    if (field === 'data') {
      this._data.push(value);
    } else if (field === 'event') {
      this._event = value;
    } else if (field === 'id') {
      this._id = value;
    }
    return null;
  }

  private _rest = '';
  private _told = false;
  private _data: string[] = [];
  private _event = '';
  private _id: string | null = null;
}

/** Reads a stream to its end; after `silence()` milliseconds without a byte (heartbeats count) it fails. */
export async function* readMessages(
  body: ReadableStream<Uint8Array>,
  silence: () => number
): AsyncIterableIterator<Message> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const parser = new MessageParser();
  try {
    for (;;) {
      const { done, value } = await within(silence(), reader.read());
      if (done) {
        return;
      }
      for (const message of parser.push(decoder.decode(value, { stream: true }))) {
        yield message;
      }
    }
  } finally {
    // Not awaited: a peer that no longer responds would block it.
    reader.cancel().catch(() => undefined);
  }
}

function within<T>(milliseconds: number, promise: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('The event stream timed out.')), milliseconds);
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
