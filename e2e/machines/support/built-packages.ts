import { packDebian } from '../../../scripts/distribution/debian-package.ts';
import { ARCHITECTURES, type Architecture, buildTree, sourceFiles } from '../../../scripts/distribution/tree.ts';
import { cachedFolder, digestOf } from './cached-folder.ts';

/** Both versions contain the same files, so that only the number differs in an upgrade. */
const VERSIONS = ['0.1.0', '0.1.1'] as const;
const SOURCES = ['packages', 'templates', 'deploy', 'scripts/distribution', 'package.json', 'package-lock.json'];

/** Debian packages of this checkout, of two versions. */
export interface BuiltPackages {
  /** Folder with both. */
  readonly folder: string;
  readonly older: string;
  readonly newer: string;
}

/** Builds the packages of an architecture once for each state of the sources. Removes those of old states. */
export async function builtPackages(architecture: Architecture): Promise<BuiltPackages> {
  const folder = await cachedFolder(`packages-${architecture}`, digestOf(sourceFiles(SOURCES)), async (folder) => {
    using tree = buildTree(architecture, VERSIONS[0]);
    for (const version of VERSIONS) await packDebian(tree, folder, { version, compression: 'none' });
  });
  const [older, newer] = VERSIONS.map((version) => `cloche_${version}_${ARCHITECTURES[architecture]}.deb`);
  return { folder, older: older ?? '', newer: newer ?? '' };
}
