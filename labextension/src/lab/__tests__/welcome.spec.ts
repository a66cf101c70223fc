/** The sample notebook opens once, and not over what is open already. */
import { LabShell, type JupyterFrontEnd, type LayoutRestorer } from '@jupyterlab/application';
import type { IDocumentManager } from '@jupyterlab/docmanager';
import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { Widget } from '@lumino/widgets';
import { expect, it, vi } from 'vitest';
import { welcomePlugin } from '../welcome';

/** What a visit with these tabs opens; `composite` are the settings, which it may change. */
async function opened(composite: { firstSteps?: boolean }, ...tabs: string[]): Promise<string[]> {
  const shell = new LabShell();
  const restorer = { fetch: async () => ({ mainArea: null, downArea: null, leftArea: null, rightArea: null }) };
  await shell.restoreLayout('multiple-document', restorer as unknown as LayoutRestorer);
  for (const id of tabs) {
    const widget = new Widget();
    widget.id = id;
    shell.add(widget, 'main');
  }
  const found: string[] = [];
  const ended = vi.fn();
  const settings = {
    composite,
    set: async (name: 'firstSteps', value: boolean) => {
      composite[name] = value;
      setTimeout(ended);
    }
  };
  const registry = { load: async () => (composite.firstSteps === false && setTimeout(ended), settings) };
  const app = {
    restored: Promise.resolve(),
    shell,
    serviceManager: { contents: { get: async () => ({}) } }
  };
  void welcomePlugin.activate(
    app as unknown as JupyterFrontEnd,
    registry as unknown as ISettingRegistry,
    { openOrReveal: (path: string) => found.push(path) } as unknown as IDocumentManager
  );
  await vi.waitFor(() => expect(ended).toHaveBeenCalled());
  shell.dispose();
  return found;
}

it('opens the sample notebook on the first visit only', async () => {
  const settings = {};
  expect(await opened(settings, 'launcher-0')).toEqual(['First steps.ipynb']);
  expect(await opened(settings, 'launcher-0')).toEqual([]);
});

it('leaves restored tabs as they are', async () => {
  const settings = {};
  expect(await opened(settings, 'notebook', 'launcher-0')).toEqual([]);
  expect(await opened(settings)).toEqual([]);
});
