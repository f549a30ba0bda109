import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const PYTHON = '/usr/bin/python3';

/**
 * A Python that finds `packages` without being told so by its environment, as one in a sandbox finds those of its template.
 * Returns its program.
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
