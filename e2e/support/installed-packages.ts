import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join, relative, sep } from 'node:path';

const modules = join(import.meta.dirname, '..', '..', 'node_modules');

/** Folders below our `node_modules` of a package and of all that it depends on, as far as it is for this platform. */
export function installedPackages(name: string): { readonly modules: string; readonly folders: readonly string[] } {
  const found = new Set<string>();
  visit(name, join(modules, 'none'), found);
  if (found.size === 0) throw new Error(`${name} is not installed in ${modules}; npm ci does that.`);
  return { modules, folders: [...found].map((folder) => relative(modules, folder)) };
}

function visit(name: string, dependent: string, found: Set<string>): void {
  const folder = findFolder(name, dependent);
  // Optional, and for another platform.
  if (folder === undefined || found.has(folder)) return;
  found.add(folder);
  const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  for (const dependency of Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies })) {
    visit(dependency, join(folder, 'package.json'), found);
  }
}

/** As Node looks for it, whatever the package exports; not above our own folder. */
function findFolder(name: string, dependent: string): string | undefined {
  const places = createRequire(dependent).resolve.paths(name) ?? [];
  return places
    .filter((place) => `${place}${sep}`.startsWith(`${modules}${sep}`))
    .map((place) => join(place, name))
    .find((folder) => existsSync(join(folder, 'package.json')));
}
