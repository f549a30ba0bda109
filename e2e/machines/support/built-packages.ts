import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { withLock } from '@cloche/setup';
import { packDebian } from '../../../scripts/distribution/debian-package.ts';
import { ARCHITECTURES, type Architecture, buildTree, sourceFiles } from '../../../scripts/distribution/tree.ts';

const CACHE = process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche';
/** The same tree in both. */
const VERSIONS = ['0.1.0', '0.1.1'] as const;

/** Debian packages of this checkout, of two versions. */
export interface BuiltPackages {
  /** Folder with both. */
  readonly folder: string;
  readonly older: string;
  readonly newer: string;
}

/** Builds the packages of an architecture once for each state of the sources. Removes those of earlier states. */
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
  for (const name of readdirSync(machines)) {
    if (name.startsWith(`packages-${architecture}-`)) rmSync(join(machines, name), { recursive: true });
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
