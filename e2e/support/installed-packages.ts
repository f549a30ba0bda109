import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, relative, sep } from 'node:path';

const modules = join(import.meta.dirname, '..', '..', 'node_modules');

/** Returns the folders below `node_modules` of a package and of all its dependencies that are for this platform. */
export function installedPackages(name: string): { readonly modules: string; readonly folders: readonly string[] } {
  const found = new Set<string>();
  visit(name, join(modules, 'none'), found);
  if (found.size === 0) throw new Error(`${name} is not installed in ${modules}; npm ci does that.`);
  return { modules, folders: [...found].map((folder) => relative(modules, folder)) };
}

function visit(name: string, dependent: string, found: Set<string>): void {
  const folder = findFolder(name, dependent);
  // An optional dependency for another platform is not installed.
  if (folder === undefined || found.has(folder)) return;
  found.add(folder);
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  for (const dependency of Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies })) {
    visit(dependency, join(folder, 'package.json'), found);
  }
}

/** Finds a package as Node does, whatever it exports, but not above this repository. */
function findFolder(name: string, dependent: string): string | undefined {
  const places = createRequire(dependent).resolve.paths(name) ?? [];
  return places
    .filter((place) => `${place}${sep}`.startsWith(`${modules}${sep}`))
    .map((place) => join(place, name))
    .find((folder) => existsSync(join(folder, 'package.json')));
}
