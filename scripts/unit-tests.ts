import { globSync } from 'node:fs';

/** Files of the simulation of several servers, which takes as long as a third of all unit tests. */
const SIMULATION = 'packages/service/server/src/compose/simulation*.test.ts';

/** Returns the test files that need no sandboxes and are quick. */
export function unitTests(): string[] {
  const files = globSync(['packages/*/*/src/**/*.test.ts', 'bench/src/**/*.test.ts', 'scripts/**/*.test.ts']);
  const slow = new Set(simulationTests());
  return files.filter((file) => !file.endsWith('.runtime.test.ts') && !slow.has(file));
}

export function simulationTests(): string[] {
  return globSync(SIMULATION);
}
