import { readFileSync } from 'node:fs';
import { defineConfig } from 'vitest/config';

/** JupyterLab's packages import icons as text, as its builder does. */
const svg = {
  name: 'svg-as-text',
  enforce: 'pre',
  load(id) {
    return id.endsWith('.svg') ? `export default ${JSON.stringify(readFileSync(id, 'utf-8'))};` : null;
  }
};

export default defineConfig({
  esbuild: { jsx: 'automatic' },
  plugins: [svg],
  test: {
    environment: 'jsdom',
    include: ['src/**/__tests__/*.spec.{ts,tsx}'],
    restoreMocks: true,
    testTimeout: 60_000, // a machine that has much else to do is slow, not wrong
    setupFiles: ['src/__tests__/setup.ts'],
    server: { deps: { inline: [/@jupyterlab/, /@jupyter\/react-components/] } }
  }
});
