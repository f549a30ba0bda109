/** Installs the tools that check the project's Python, without root and without changing the machine's Python. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findPythonPackages } from '../packages/guest/agent/testing/test-cache.ts';

export const PYTHON = '/usr/bin/python3';
const REQUIREMENTS = join(import.meta.dirname, '../requirements-dev.txt');
const OF_TEMPLATE = join(import.meta.dirname, '../templates/python-node/requirements.txt');
/** Python of the template, whose packages the kernel is tested with. */
const VERSION_OF_TEMPLATE = 'Python 3.11.';
/** Packages that the kernel's tests import, with all that these need. */
const OF_KERNEL = (
  'asttokens comm contourpy cycler executing fonttools ipython ipython-pygments-lexers jedi kiwisolver ' +
  'matplotlib matplotlib-inline numpy packaging pandas parso pexpect pillow prompt-toolkit psutil ' +
  'ptyprocess pure-eval pygments pyparsing python-dateutil stack-data traitlets typing-extensions tzdata wcwidth '
)
  .trim()
  .split(' ');
/** Only the lines with versions, which apply to what a package requires. */
const VERSIONS = /^[\w.-]+==[^\s\\]+/gm;
/** Path from a template's Python packages to the folder that contains its pip. */
const TO_PIP = '../../../../lib/python3/dist-packages';

/** Returns why nothing can be installed by pip; undefined if it can. */
export function lacksPip(cacheDir: string, python = PYTHON): string | undefined {
  if (findPip(cacheDir, python) !== undefined) return undefined;
  const what = existsSync(python) ? 'Python has no pip' : `${python} is missing`;
  return `${what}: run \`apt-get install python3-venv\` as root`;
}

/**
 * Installs the packages of a file of requirements into the cache, once for each content of the file.
 *
 * @param requirements default: Ruff and the packages of unit tests
 * @returns the folder of the packages; programs are in its `bin`
 */
export function ensurePythonTools(cacheDir: string, requirements = REQUIREMENTS): string {
  return ensurePackages(cacheDir, readFileSync(requirements, 'utf8'));
}

/**
 * Returns the folder of the packages that the kernel is tested with: those of a built template or, without one, the same
 * versions from the cache. Returns the reason if there is neither.
 */
export function kernelPackages(cacheDir: string): { readonly folder: string } | { readonly missing: string } {
  const built = findPythonPackages();
  if (built !== undefined) return { folder: built };
  const missing = lacksPip(cacheDir);
  if (missing !== undefined) return { missing };
  const version = execFileSync(PYTHON, ['--version'], { encoding: 'utf8' }).trim();
  if (!version.startsWith(VERSION_OF_TEMPLATE)) {
    return { missing: `the kernel runs in ${VERSION_OF_TEMPLATE}x, and the machine has ${version}` };
  }
  const lines = readFileSync(OF_TEMPLATE, 'utf8').split('\n');
  const needed = lines.filter((line) => OF_KERNEL.includes(line.split('==')[0] ?? ''));
  return { folder: ensurePackages(cacheDir, `${needed.join('\n')}\n`) };
}

/** Installs a wheel and what it requires, in the versions of `requirements-dev.txt`, into the environment of `python`. */
export function installInto(python: string, cacheDir: string, ...wheels: string[]): void {
  const constraints = `${wheels[0]}.constraints.txt`;
  writeFileSync(constraints, readFileSync(REQUIREMENTS, 'utf8').match(VERSIONS)?.join('\n') ?? '');
  const options = ['--quiet', '--only-binary=:all:', '--disable-pip-version-check', '--constraint', constraints];
  try {
    runPip(cacheDir, '--python', python, 'install', ...options, ...wheels);
  } finally {
    rmSync(constraints);
  }
}

function ensurePackages(cacheDir: string, requirements: string): string {
  const tools = join(cacheDir, 'python-tools');
  const folder = join(tools, createHash('sha256').update(requirements).digest('hex').slice(0, 32));
  return ensureFolder(folder, (building) => {
    const file = `${building}.txt`;
    writeFileSync(file, requirements);
    const options = ['--quiet', '--require-hashes', '--only-binary=:all:', '--no-deps', '--no-cache-dir'];
    const target = ['--root-user-action=ignore', '--target', building, '--requirement', file];
    try {
      runPip(cacheDir, 'install', ...options, ...target);
    } finally {
      rmSync(file);
    }
  });
}

/** Makes a folder of the cache once, which other processes may be making at the same time. */
function ensureFolder(folder: string, make: (building: string) => void): string {
  if (existsSync(folder)) return folder;
  const parent = join(folder, '..');
  mkdirSync(parent, { recursive: true });
  const building = mkdtempSync(join(parent, '.building-'));
  try {
    make(building);
    if (!existsSync(folder)) renameSync(building, folder);
  } finally {
    rmSync(building, { recursive: true, force: true });
  }
  return folder;
}

function runPip(cacheDir: string, ...args: string[]): void {
  const path = findPip(cacheDir);
  if (path === undefined) throw new Error(lacksPip(cacheDir));
  const env = { ...process.env, PYTHONPATH: path };
  execFileSync(PYTHON, ['-m', 'pip', ...args], { env, stdio: ['ignore', 'ignore', 'pipe'] });
}

/**
 * Returns the `PYTHONPATH` with which Python finds pip: the machine's own pip, that of a built template, or that of the
 * module `venv`. Returns undefined if the machine has no pip.
 */
export function findPip(cacheDir: string, python = PYTHON): string | undefined {
  const hasPip = (PYTHONPATH: string) =>
    spawnSync(python, ['-m', 'pip', '--version'], { env: { ...process.env, PYTHONPATH } }).status === 0;
  if (hasPip('')) return '';
  const template = findPythonPackages();
  if (template !== undefined && hasPip(join(template, TO_PIP))) return join(template, TO_PIP);
  const pipOf = (environment: string) => globSync(join(environment, 'lib/python3*/site-packages')).find(hasPip);
  try {
    const environment = ensureFolder(join(cacheDir, 'python-tools/pip'), (building) => {
      execFileSync(python, ['-m', 'venv', building], { stdio: 'ignore' });
      if (pipOf(building) === undefined) throw new Error('The environment has no pip.');
    });
    return pipOf(environment);
  } catch {
    return undefined;
  }
}
