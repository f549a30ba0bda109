import { globSync } from 'node:fs';

/** Returns the test files that need no sandboxes. */
export function unitTests(): string[] {
  const files = globSync(['packages/*/src/**/*.test.ts', 'bench/src/**/*.test.ts', 'scripts/**/*.test.ts']);
  return files.filter((file) => !file.endsWith('.runtime.test.ts'));
}
