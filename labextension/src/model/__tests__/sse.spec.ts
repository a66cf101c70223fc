import { describe, expect, it } from 'vitest';
import { MessageParser, readMessages, type Message } from '../sse';

const TEXT =
  'retry: 1000\nid: 7\n\nid: 8\nevent: job.state\ndata: {"a":\ndata: 1}\n\n: still here\n\nid: 9\ndata: x\n\n';

const MESSAGES: Message[] = [
  { id: '7', event: 'message', data: '' },
  { id: '8', event: 'job.state', data: '{"a":\n1}' },
  { id: '9', event: 'message', data: 'x' }
];

describe('server-sent events', () => {
  it('are parsed the same for any chunks', () => {
    for (let size = 1; size <= TEXT.length; size++) {
      const parser = new MessageParser();
      const found: Message[] = [];
      for (let at = 0; at < TEXT.length; at += size) {
        found.push(...parser.push(TEXT.slice(at, at + size)));
      }
      expect(found).toEqual(MESSAGES);
    }
  });

  it('may use CRLF', () => {
    expect(new MessageParser().push(TEXT.replaceAll('\n', '\r\n'))).toEqual(MESSAGES);
  });

  it('are decoded when a chunk ends inside a character', async () => {
    const bytes = new TextEncoder().encode('data: größer\n\n');
    const body = new ReadableStream<Uint8Array>({
      start(controller) {
        bytes.forEach(byte => controller.enqueue(new Uint8Array([byte])));
        controller.close();
      }
    });
    const found: string[] = [];
    for await (const message of readMessages(body, () => 1000)) {
      found.push(message.data);
    }
    expect(found).toEqual(['größer']);
  });

  it('fail when no data arrives', async () => {
    const messages = readMessages(new ReadableStream<Uint8Array>(), () => 5);
    await expect(messages.next()).rejects.toThrow('timed out');
  });
});
