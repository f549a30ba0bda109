import { existsSync, readdirSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const isRoot = process.getuid?.() === 0;
const OF_USER = join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'cloche');
/** Folder for what tests build, named by digests. It is kept for the next test runs. */
export const CACHE_DIR = process.env.CLOCHE_CACHE_DIR ?? (isRoot ? '/var/cache/cloche' : OF_USER);
const TEMPLATES = join(CACHE_DIR, 'templates/python-node');
const IN_ROOTFS = 'rootfs/usr/local/lib/python3.11/dist-packages';

/** Returns the folder with the Python packages of the template that was built last; undefined if none is built. */
export function findPythonPackages(): string | undefined {
  const given = process.env.CLOCHE_TEST_PYTHONPATH;
  if (given !== undefined) return given;
  if (!existsSync(TEMPLATES)) return undefined;
  const builtAt = (version: string) => statSync(join(TEMPLATES, version)).mtimeMs;
  return readdirSync(TEMPLATES)
    .sort((one, other) => builtAt(other) - builtAt(one))
    .map((version) => join(TEMPLATES, version, IN_ROOTFS))
    .find((folder) => existsSync(join(folder, 'IPython')));
}
