import { defineConfig } from 'vitest/config';

export default defineConfig({
  esbuild: { jsx: 'automatic' },
  test: {
    environment: 'jsdom',
    include: ['src/**/__tests__/*.spec.{ts,tsx}'],
    restoreMocks: true
  }
});
