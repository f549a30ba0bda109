/** Installs the tools that check the project's Python, without changing the machine's Python. */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export const PYTHON = '/usr/bin/python3';
const REQUIREMENTS = join(import.meta.dirname, '../requirements-dev.txt');
/** Only the lines with versions, which apply to what a package requires. */
const VERSIONS = /^[\w.-]+==[^\s\\]+/gm;
/** Path from a template's Python packages to the folder that contains its pip. */
const TO_PIP = '../../../../lib/python3/dist-packages';

/**
 * Installs the packages of a file of requirements into the cache, once for each content of the file.
 *
 * @param pythonPackages packages of a built template. Its pip installs, so the machine needs none.
 * @param requirements default: Ruff and the packages of unit tests
 * @returns the folder of the packages; programs are in its `bin`
 */
export function ensurePythonTools(cacheDir: string, pythonPackages: string, requirements = REQUIREMENTS): string {
  const digest = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 32);
  const folder = join(cacheDir, 'python-tools', digest);
  if (existsSync(folder)) return folder;
  mkdirSync(join(cacheDir, 'python-tools'), { recursive: true });
  const building = mkdtempSync(join(cacheDir, 'python-tools', '.building-'));
  try {
    const options = ['--quiet', '--require-hashes', '--only-binary=:all:', '--no-deps', '--no-cache-dir'];
    const command = ['-m', 'pip', 'install', ...options, '--root-user-action=ignore', '--target', building];
    const env = { ...process.env, PYTHONPATH: join(pythonPackages, TO_PIP) };
    execFileSync(PYTHON, [...command, '--requirement', requirements], { env, stdio: ['ignore', 'ignore', 'pipe'] });
    // Another process may have installed the same tools in the meantime.
    if (!existsSync(folder)) renameSync(building, folder);
  } finally {
    rmSync(building, { recursive: true, force: true });
  }
  return folder;
}

/**
 * Installs a wheel and what it requires, in the versions of `requirements-dev.txt`, into the environment of `python`.
 */
export function installInto(python: string, pythonPackages: string, wheel: string): void {
  const constraints = `${wheel}.constraints.txt`;
  writeFileSync(constraints, readFileSync(REQUIREMENTS, 'utf8').match(VERSIONS)?.join('\n') ?? '');
  const options = ['--quiet', '--only-binary=:all:', '--disable-pip-version-check', '--constraint', constraints];
  const env = { ...process.env, PYTHONPATH: join(pythonPackages, TO_PIP) };
  const command = ['-m', 'pip', '--python', python, 'install', ...options, wheel];
  execFileSync(PYTHON, command, { env, stdio: ['ignore', 'ignore', 'pipe'] });
}
