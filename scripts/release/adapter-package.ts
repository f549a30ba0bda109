import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { bundle } from './bundle.ts';
import { buildPlainDeclarations } from './declarations.ts';
import { type BuiltPackage, completePackage, emptyFolder } from './package-folder.ts';
import { releaseVersion } from './version.ts';

/** Fields of an adapter's manifest that its package has too. */
const KEPT = ['name', 'description', 'keywords', 'engines', 'dependencies', 'peerDependencies'] as const;

/** Builds an adapter in TypeScript: ESM that imports the SDK and its host, and its types. */
export async function buildAdapterPackage(source: string, folder: string): Promise<BuiltPackage> {
  emptyFolder(folder);
  const manifest = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'));
  const imports = Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies });
  const contained = await bundle({
    entryPoints: [join(source, 'src/index.ts')],
    outdir: join(folder, 'dist'),
    platform: 'neutral',
    external: [...imports, 'node:*'],
  });
  buildPlainDeclarations(resolve(source, 'src'), 'index.ts', join(folder, 'types'));
  const built = {
    ...Object.fromEntries(KEPT.filter((field) => field in manifest).map((field) => [field, manifest[field]])),
    name: manifest.name,
    dependencies: withRange(manifest.dependencies),
    sideEffects: false,
    exports: { '.': { types: './types/index.d.ts', default: './dist/index.js' }, './package.json': './package.json' },
    files: ['dist', 'types', 'THIRD-PARTY-NOTICES.txt'],
  };
  return { ...completePackage(source, folder, built, contained), imports };
}

/** Replaces `*`, which stands for the SDK of this checkout, by the versions that the adapter works with. */
function withRange(dependencies: Readonly<Record<string, string>>): object {
  const range = (given: string) => (given === '*' ? `^${releaseVersion()}` : given);
  return Object.fromEntries(Object.entries(dependencies).map(([name, given]) => [name, range(given)]));
}
