import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, realpathSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { LOADER } from '../config.ts';

const PERL = '/usr/bin/perl';
/** Script that loads the modules of `supervise.pl`, and prints the name and file of each. */
const LIST_MODULES = 'use strict; use constant { A => 1 }; print map { "$_\\t$INC{$_}\\n" } sort keys %INC';

/**
 * Copies Perl, and the loader and libraries of this host for Node and Perl, so that both run on any root file system,
 * also one of another C library.
 */
export function copyLibraries(folder: string, node: string): void {
  const libraries = join(folder, 'lib');
  mkdirSync(libraries);
  copyFileSync(ownLoader(), join(libraries, LOADER));
  for (const file of librariesOf(node, PERL)) copyFileSync(file, join(libraries, basename(file)));
  copyFileSync(realpathSync(PERL), join(folder, 'bin/perl'));
  for (const line of execFileSync(PERL, ['-e', LIST_MODULES], { encoding: 'utf8' }).trim().split('\n')) {
    const [name = '', file = ''] = line.split('\t');
    const target = join(folder, 'perl', name);
    mkdirSync(dirname(target), { recursive: true });
    copyFileSync(file, target);
  }
}

/** Returns the files that `copyLibraries` copies from outside this repository, apart from Perl's modules. */
export function librarySources(node: string): string[] {
  return [PERL, ownLoader(), ...librariesOf(node, PERL)];
}

/** Returns the libraries that the loader finds for the programs, each once. */
function librariesOf(...programs: readonly string[]): string[] {
  const found = programs.flatMap((program) => {
    const text = execFileSync(ownLoader(), ['--list', program], { encoding: 'utf8' });
    return [...text.matchAll(/^\s*(?!ld-)\S+ => (\/\S+) \(/gm)].map(([, file = '']) => file);
  });
  return [...new Set(found)];
}

/** Returns the dynamic loader of this host. */
function ownLoader(): string {
  const loader = process.arch === 'arm64' ? '/lib/ld-linux-aarch64.so.1' : '/lib64/ld-linux-x86-64.so.2';
  if (!existsSync(loader)) throw new Error(`${loader} is missing: the host needs the GNU C library.`);
  return realpathSync(loader);
}
