import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const PYTHON = '/usr/bin/python3';

/**
 * Makes a Python installation that finds `packages` without help from its environment, as a template's Python does.
 * Returns the path of its program.
 */
export function makePythonHome(folder: string, packages: string): string {
  const site = join(folder, 'lib/python3.11/site-packages');
  mkdirSync(site, { recursive: true });
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'pyvenv.cfg'), 'home = /usr/bin\n');
  writeFileSync(join(site, 'packages.pth'), `${packages}\n`);
  symlinkSync(PYTHON, join(folder, 'bin/python3'));
  return join(folder, 'bin/python3');
}
