/** Compares the dependencies that packages declare with the packages that they import. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, it } from 'node:test';

interface Manifest {
  readonly name: string;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly devDependencies?: Readonly<Record<string, string>>;
}

const IMPORT =
  /(?:\bfrom|\bimport|\bimport\(|\brequire\(|\brequire\.resolve\(|\bimport\.meta\.resolve\()\s*['"]([^'"]+)['"]/g;
/** Packages that are unpacked into sandboxes and never imported. */
const UNPACKED: readonly string[] = ['vite'];
const TEST = /\.test\.ts$|\.fixture\.ts$|\/(testing|test)\//;

/** Returns the package that a specifier names: `@scope/name` for `@scope/name/part`. */
function packageOf(specifier: string): string {
  return specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/');
}

function importsOf(files: readonly string[]): Set<string> {
  const specifiers = files.flatMap((file) => [...readFileSync(file, 'utf8').matchAll(IMPORT)].map((match) => match[1]));
  return new Set(specifiers.map((specifier = '') => packageOf(specifier)));
}

const packages = globSync(['{packages/*/*,adapters/*}/package.json', 'bench/package.json', 'e2e/package.json']).map(
  (file) => {
    const folder = dirname(file);
    const sources = globSync(join(folder, '**/*.{ts,mts,mjs,js,cjs}'), { exclude: ['**/node_modules/**'] });
    return {
      folder,
      manifest: JSON.parse(readFileSync(file, 'utf8')) as Manifest,
      imports: importsOf(sources),
      importsOfProduction: importsOf(sources.filter((source) => !TEST.test(source))),
    };
  },
);

describe('a package', () => {
  it('a package is found wherever it stands', () => {
    const folders = packages.map(({ folder }) => folder);
    for (const folder of ['packages/service/server', 'packages/shared/archive', 'adapters/ai-sdk', 'e2e'])
      assert.ok(folders.includes(folder), folder);
  });

  it('a package imports each package that it declares', () => {
    const unused = packages.flatMap(({ folder, manifest, imports }) =>
      Object.keys({ ...manifest.dependencies, ...manifest.devDependencies })
        .filter((name) => !UNPACKED.includes(name))
        // A package of types is used when the package that it describes is imported.
        .filter((name) => !imports.has(name.replace(/^@types\//, '')))
        .map((name) => `${folder} declares ${name}`),
    );
    assert.deepEqual(unused, []);
  });

  it('declares as a dependency of its users only what its production code imports', () => {
    const onlyInTests = packages
      .filter(({ folder }) => /^(packages|adapters)\//.test(folder))
      .flatMap(({ folder, manifest, importsOfProduction }) =>
        Object.keys(manifest.dependencies ?? {})
          .filter((name) => !importsOfProduction.has(name))
          .map((name) => `${folder} declares ${name}`),
      );
    assert.deepEqual(onlyInTests, []);
  });
});
