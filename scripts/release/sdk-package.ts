import { join } from 'node:path';
import { bundle } from './bundle.ts';
import { checkContractTypes, checkDeclarations } from './check-types.ts';
import { buildDeclarations } from './declarations.ts';
import { type BuiltPackage, completePackage, emptyFolder } from './package-folder.ts';

const SOURCE = 'packages/clients/sdk';
/** Modules of the package that programs import, by subpath. */
const ENTRIES = { index: '.', node: './node', 'webhook-messages': './webhooks' } as const;
const DIRECTORIES = { 'pack-directory': 'packing/pack-directory', 'no-directories': 'packing/no-directories' } as const;

/** Builds `@cloche/sdk`: ESM without dependencies, and its types. */
export async function buildSdkPackage(folder: string): Promise<BuiltPackage> {
  emptyFolder(folder);
  const modules = { ...Object.fromEntries(Object.keys(ENTRIES).map((name) => [name, name])), ...DIRECTORIES };
  const contained = await bundle({
    entryPoints: Object.fromEntries(Object.entries(modules).map(([name, path]) => [name, `${SOURCE}/src/${path}.ts`])),
    outdir: join(folder, 'dist'),
    platform: 'neutral',
    mainFields: ['module', 'main'],
    // Resolved where the package runs: only some platforms have directories.
    external: ['#pack-directory', 'node:*'],
  });
  const types = join(folder, 'types');
  const files = Object.keys(ENTRIES).map((name) => `${name}.ts`);
  checkContractTypes(buildDeclarations(files, types), types);
  checkDeclarations(
    files.map((file) => file.replace('.ts', '.d.ts')),
    types,
  );
  const manifest = {
    name: '@cloche/sdk',
    description: 'TypeScript client of Cloche: run untrusted code in isolated sandboxes',
    keywords: ['sandbox', 'code-execution', 'code-interpreter', 'isolation'],
    sideEffects: false,
    exports: {
      ...Object.fromEntries(
        Object.entries(ENTRIES).map(([name, subpath]) => [
          subpath,
          { types: `./types/${name}.d.ts`, default: `./dist/${name}.js` },
        ]),
      ),
      './package.json': './package.json',
    },
    imports: { '#pack-directory': { node: './dist/pack-directory.js', default: './dist/no-directories.js' } },
    files: ['dist', 'types', 'THIRD-PARTY-NOTICES.txt'],
  };
  return completePackage(SOURCE, folder, manifest, contained);
}
