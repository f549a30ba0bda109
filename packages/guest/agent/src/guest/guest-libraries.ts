import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, realpathSync } from 'node:fs';
import { basename, join } from 'node:path';
import { LOADER } from '../config.ts';

/**
 * Copies the loader and the libraries of this host for Node, so that it runs on any root file system, also one of
 * another C library.
 */
export function copyLibraries(folder: string, node: string): void {
  const libraries = join(folder, 'lib');
  mkdirSync(libraries);
  copyFileSync(ownLoader(), join(libraries, LOADER));
  for (const file of librariesOf(node)) copyFileSync(file, join(libraries, basename(file)));
}

/** Returns the files that `copyLibraries` copies. */
export function librarySources(node: string): string[] {
  return [ownLoader(), ...librariesOf(node)];
}

/** Returns the libraries that the loader finds for a program. */
function librariesOf(program: string): string[] {
  const text = execFileSync(ownLoader(), ['--list', program], { encoding: 'utf8' });
  return [...text.matchAll(/^\s*(?!ld-)\S+ => (\/\S+) \(/gm)].map(([, file = '']) => file);
}

/** Returns the dynamic loader of this host. */
function ownLoader(): string {
  const loader = process.arch === 'arm64' ? '/lib/ld-linux-aarch64.so.1' : '/lib64/ld-linux-x86-64.so.2';
  if (!existsSync(loader)) throw new Error(`${loader} is missing: the host needs the GNU C library.`);
  return realpathSync(loader);
}
