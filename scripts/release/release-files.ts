import { globSync, readFileSync } from 'node:fs';
import { ARCHITECTURES } from '../distribution/tree.ts';
import { PYTHON_PACKAGES } from './python-package.ts';

/** Returns the names of the files that every release of a version has for the architectures, in order. */
export function releaseFiles(
  version: string,
  architectures: readonly (keyof typeof ARCHITECTURES)[] = Object.keys(ARCHITECTURES) as ['x64', 'arm64'],
): string[] {
  const adapters = globSync('adapters/*/package.json').map((file) => JSON.parse(readFileSync(file, 'utf8')).name);
  const ofNpm = ['cloche-sdk', 'cloche', ...adapters].map((name) => `${name}-${version}.tgz`);
  const ofPython = PYTHON_PACKAGES.flatMap(({ module }) => [
    `${module}-${version}-py3-none-any.whl`,
    `${module}-${version}.tar.gz`,
  ]);
  const ofMachines = architectures.flatMap((architecture) => [
    `cloche_${version}_${ARCHITECTURES[architecture]}.deb`,
    `cloche-${version}-linux-${architecture}.tar.gz`,
    `cloche-${version}-linux-${architecture}.cdx.json`,
  ]);
  return [...ofNpm, ...ofPython, ...ofMachines].sort();
}

/** Returns the names of the archives of templates, which only root can make and only for its own architecture. */
export function templateArchives(out: string, version: string): string[] {
  return globSync(`cloche-templates-${version}*.tar`, { cwd: out }).sort();
}
