import { KernelConnection, ServerConnection } from '@jupyterlab/services';
import { expect, it, vi } from 'vitest';
import { markExecutions } from '../executions';

/** A kernel's connection whose messages are kept instead of sent. */
class Connection extends KernelConnection {
  readonly sent: unknown[] = [];
  override sendShellMessage = vi.fn((message: { metadata: unknown; content: { code: string } }) => {
    this.sent.push([message.content.code, message.metadata]);
  }) as never;
}

it('marks each execution, and keeps its other metadata', () => {
  const serverSettings = ServerConnection.makeSettings({
    WebSocket: class {
      close(): void {}
    } as never,
    appendToken: false
  });
  const connectTo = (options: { model: { id: string; name: string } }) =>
    new Connection({ ...options, serverSettings });
  const kernels = { connectTo: connectTo as never } as Parameters<typeof markExecutions>[0];
  markExecutions(kernels);
  const kernel = kernels.connectTo({ model: { id: 'k', name: 'python3' } }) as Connection;
  kernel.requestExecute({ code: '1' });
  kernel.requestExecute({ code: '2' }, false, { cellId: 'a' });
  expect(kernel.sent).toEqual([
    ['1', { runai_renderer: true }],
    ['2', { cellId: 'a', runai_renderer: true }]
  ]);
  kernel.dispose();
});
