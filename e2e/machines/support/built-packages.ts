import { createHash } from 'node:crypto';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { withLock } from '@cloche/setup';
import { packDebian } from '../../../scripts/distribution/debian-package.ts';
import { ARCHITECTURES, type Architecture, buildTree, sourceFiles } from '../../../scripts/distribution/tree.ts';

const CACHE = process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche';
/** Both versions contain the same files, so that only the number differs in an upgrade. */
const VERSIONS = ['0.1.0', '0.1.1'] as const;

/** Longer than any test takes. */
const OLD_MS = 3_600_000;

/** Debian packages of this checkout, of two versions. */
export interface BuiltPackages {
  /** Folder with both. */
  readonly folder: string;
  readonly older: string;
  readonly newer: string;
}

/** Builds the packages of an architecture once for each state of the sources. Removes those of old states. */
export async function builtPackages(architecture: Architecture): Promise<BuiltPackages> {
  const machines = join(CACHE, 'machines');
  const folder = join(machines, `packages-${architecture}-${digestOfSources()}`);
  mkdirSync(machines, { recursive: true });
  return withLock(join(machines, `packages-${architecture}.lock`), async () => {
    if (!existsSync(folder)) await build(architecture, machines, folder);
    const [older, newer] = VERSIONS.map((version) => `cloche_${version}_${ARCHITECTURES[architecture]}.deb`);
    return { folder, older: older ?? '', newer: newer ?? '' };
  });
}

async function build(architecture: Architecture, machines: string, folder: string): Promise<void> {
  for (const folder of globSync(join(machines, `packages-${architecture}-*`))) {
    // A test of another checkout may install younger ones now.
    if (statSync(folder).mtimeMs < Date.now() - OLD_MS) rmSync(folder, { recursive: true });
  }
  const building = mkdtempSync(join(machines, 'building-'));
  try {
    using tree = buildTree(architecture, VERSIONS[0]);
    for (const version of VERSIONS) await packDebian(tree, building, { version, compression: 'none' });
    renameSync(building, folder);
  } finally {
    rmSync(building, { recursive: true, force: true });
  }
}

function digestOfSources(): string {
  const hash = createHash('sha256');
  const paths = ['packages', 'templates', 'deploy', 'scripts/distribution', 'package.json', 'package-lock.json'];
  for (const file of sourceFiles(paths)) hash.update(`${file}\0`).update(readFileSync(file));
  return hash.digest('hex').slice(0, 12);
}
