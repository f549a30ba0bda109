import { execFileSync } from 'node:child_process';

/** The npm that the lock file pins, whatever the machine has. */
const NPM = 'node_modules/npm/bin/npm-cli.js';

/** Runs npm in a folder and returns its output. Throws with all that it printed if it fails. */
export function runNpm(cwd: string, ...args: string[]): string {
  // The variables of a surrounding `npm run` would apply its settings to this folder.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)));
  const options = { cwd, env, encoding: 'utf8', maxBuffer: 64 * 1024 ** 2, stdio: 'pipe' } as const;
  return execFileSync(process.execPath, [`${process.cwd()}/${NPM}`, ...args], options);
}
