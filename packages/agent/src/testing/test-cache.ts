import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** What tests build stays there for the next ones, named by its digest. */
export const CACHE_DIR = process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche';
const TEMPLATES = join(CACHE_DIR, 'templates/python-node');
const IN_ROOTFS = 'rootfs/usr/local/lib/python3.11/dist-packages';

/** Where IPython and the scientific libraries of a built template lie; undefined when none is built. */
export function findPythonPackages(): string | undefined {
  const given = process.env.CLOCHE_TEST_PYTHONPATH;
  if (given !== undefined) return given;
  if (!existsSync(TEMPLATES)) return undefined;
  return readdirSync(TEMPLATES)
    .map((version) => join(TEMPLATES, version, IN_ROOTFS))
    .find((folder) => existsSync(join(folder, 'IPython')));
}
