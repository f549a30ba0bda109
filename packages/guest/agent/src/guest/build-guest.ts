import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { cp, mkdtemp, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { buildKernelJs } from '@cloche/kernel-js/build';
import { cachePaths, firstPresent, GUEST_PATH, INIT_PROGRAMS, staticProgram } from '@cloche/layout';
import { buildSync } from 'esbuild';
import { LOADER, SUDO_SOCKET } from '../config.ts';
import { AGENT_PROGRAM } from './agent-program.ts';
import { copyLibraries, librarySources } from './guest-libraries.ts';
import { copyIpython, describeIpython, findIpython, type IpythonPackages } from './ipython-packages.ts';

const run = promisify(execFile);
const require = createRequire(import.meta.url);

const PACKAGES = fileURLToPath(new URL('../../../../', import.meta.url));
/** Folders whose files are part of the guest's digest: those of the agent and of everything that it depends on. */
export const SOURCES = [
  'guest/agent/src',
  'shared/protocol/src',
  'shared/archive/src',
  'shared/node-support/src',
  'shared/layout/src',
  'guest/kernel-js/src',
  'guest/kernel-python/cloche_kernel',
  'guest/kernel-python/cloche_zygote',
  'shared/image-archive/src',
];
/** Paths of these folders. */
export const GUEST_SOURCES = SOURCES.map((source) => join(PACKAGES, source));
/** Contributes to the digest, because it fixes the versions of all bundled dependencies. */
const LOCK_FILE = join(PACKAGES, '../package-lock.json');

const PYTHON = '/usr/bin/python3';

/** Programs in C, by their names in the folder `bin`. */
const OWN_PROGRAMS = { supervise: 'supervise', 'release-shared': 'release-shared', 'sudo-client': 'sudo' } as const;

const SUDO = `#!/bin/sh
exec ${GUEST_PATH}/bin/sudo-client ${SUDO_SOCKET} "$@"
`;

export interface Guest {
  /** `<cacheDir>/guest/<digest>` */
  guestDir: string;
  digest: string;
}

/**
 * Builds the folder that is mounted into every sandbox: Node, init, agent, kernels, libraries for them, and IPython
 * from a built template, for images without IPython. Idempotent: the folder is named after the digest of its inputs. It
 * appears complete or not at all, even if several processes build it at once. Throws if the host has no static tini.
 */
export async function buildGuest({ cacheDir }: { cacheDir: string }): Promise<Guest> {
  const { guestDir: parent } = cachePaths(cacheDir);
  const ipython = findIpython(cacheDir);
  const digest = digestInputs(ipython);
  const guestDir = join(parent, digest);
  if (existsSync(guestDir)) return { guestDir, digest };

  mkdirSync(parent, { recursive: true });
  const building = await mkdtemp(join(parent, '.building-'));
  try {
    await assemble(building, ipython);
    makeReadable(building);
    await publish(building, guestDir);
  } finally {
    await rm(building, { recursive: true, force: true });
  }
  return { guestDir, digest };
}

function digestInputs(ipython: IpythonPackages | undefined): string {
  const hash = createHash('sha256');
  const files = [LOCK_FILE, ...SOURCES.flatMap((source) => sourceFiles(join(PACKAGES, source)))];
  for (const file of files) hash.update(file.slice(PACKAGES.length)).update('\0').update(readFileSync(file));
  // Without paths and times, so that hosts with the same programs can exchange the folder. The lock file fixes Node.
  hash.update(`${statSync(nodeProgram()).size}\0`);
  const own = Object.values(OWN_PROGRAMS).map((name) => staticProgram(name));
  for (const program of [firstPresent(INIT_PROGRAMS), ...own, ...librarySources(nodeProgram())]) {
    hash.update(`${basename(program)}\0`).update(contentDigest(program));
  }
  // Its name has the version, which decides the form of compiled modules: `python3.11`.
  hash.update(existsSync(PYTHON) ? basename(realpathSync(PYTHON)) : 'absent');
  hash.update(`\0${describeIpython(ipython)}`);
  return hash.digest('hex').slice(0, 32);
}

function sourceFiles(folder: string): string[] {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(ts|py)$/.test(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !/\/test(ing)?\/|\.test\.ts$/.test(path))
    .sort();
}

function contentDigest(program: string): Buffer {
  return createHash('sha256').update(readFileSync(program)).digest();
}

/** Returns the path of the Node program, which is the only content of an npm package for each architecture. */
function nodeProgram(): string {
  return realpathSync(require.resolve(`node-linux-${process.arch}/bin/node`));
}

async function assemble(folder: string, ipython: IpythonPackages | undefined): Promise<void> {
  mkdirSync(join(folder, 'bin'));
  linkOrCopy(nodeProgram(), join(folder, 'bin/node'));
  copyFileSync(firstPresent(INIT_PROGRAMS), join(folder, 'bin/tini'));
  for (const [name, program] of Object.entries(OWN_PROGRAMS)) {
    copyFileSync(staticProgram(program), join(folder, 'bin', name));
  }
  copyLibraries(folder, nodeProgram());
  writeFileSync(join(folder, 'bin/sudo'), SUDO);
  mkdirSync(join(folder, 'kernel-js'));
  bundleAgent(folder);
  const node = join(folder, 'bin/node');
  await Promise.all([buildKernelJs(join(folder, 'kernel-js'), node), copyPython(join(folder, 'python'))]);
  if (ipython) copyIpython(ipython, join(folder, 'python/ipython'));
  // Last, because it runs the files above.
  await run(node, [join(PACKAGES, 'guest/agent/src/guest/precompile-agent.ts'), folder]);
}

/**
 * Bundles as CommonJS: importing `node:http` as an ES module loads all its exports, including a WebSocket client, which
 * costs each sandbox 30 ms and 4 MB at its start. Synchronous, because the asynchronous API leaves a process of the
 * bundler running as long as this one.
 */
function bundleAgent(folder: string): void {
  const programs = {
    'agent.cjs': join(PACKAGES, 'guest/agent/src/guest/load-agent.ts'),
    [AGENT_PROGRAM]: join(PACKAGES, 'guest/agent/src/main.ts'),
    'unpack-image.cjs': fileURLToPath(import.meta.resolve('@cloche/image-archive/unpack-program')),
  };
  for (const [name, source] of Object.entries(programs)) {
    buildSync({
      entryPoints: [source],
      outfile: join(folder, name),
      bundle: true,
      platform: 'node',
      format: 'cjs',
      target: 'node26',
      define: { 'import.meta.dirname': '__dirname' },
      logLevel: 'warning',
    });
  }
}

async function copyPython(folder: string): Promise<void> {
  for (const name of ['cloche_kernel', 'cloche_zygote']) {
    await cp(join(PACKAGES, 'guest/kernel-python', name), join(folder, name), {
      recursive: true,
      filter: (source) => !source.endsWith('__pycache__'),
    });
  }
  // On a host without Python the kernel is compiled at each start, which is slower but works.
  if (existsSync(PYTHON)) {
    await run(PYTHON, ['-m', 'compileall', '-q', '--invalidation-mode', 'unchecked-hash', folder]);
  }
}

/** Links the file if both paths are on one file system, and copies it otherwise. */
function linkOrCopy(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to);
  }
}

/** Makes everything readable for all users, regardless of this process's umask. */
function makeReadable(folder: string): void {
  chmodSync(folder, 0o755);
  for (const entry of readdirSync(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const isProgram = basename(entry.parentPath) === 'bin' || entry.name === LOADER;
    if (!entry.isSymbolicLink()) chmodSync(path, entry.isDirectory() || isProgram ? 0o755 : 0o644);
  }
}

async function publish(from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
  } catch (error) {
    // Another process has published the same content first.
    if (!existsSync(to)) throw error;
  }
}
