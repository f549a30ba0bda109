import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { releaseVersion } from './version.ts';

/** A package for the npm registry, as it is before it is packed. */
export interface BuiltPackage {
  readonly name: string;
  readonly version: string;
  readonly folder: string;
  /** Packages that it imports and does not contain. Their versions are in its manifest. */
  readonly imports?: readonly string[];
}

/** Node releases that the packages run on. */
export const ENGINES = { node: '>=20.11' };

/** Empties the folder of a package. */
export function emptyFolder(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
}

/**
 * Completes the folder of a package: its manifest, README, licence, and the notices of packages that it contains.
 *
 * @param source folder of the package in this repository, which has its README
 * @param manifest what the manifest has besides version, licence and type
 */
export function completePackage(
  source: string,
  folder: string,
  manifest: { readonly name: string } & object,
  contained: readonly string[],
): BuiltPackage {
  const version = releaseVersion();
  const { license } = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8'));
  const { name, ...rest } = manifest;
  const whole = { name, version, license, type: 'module', engines: ENGINES, ...rest };
  writeFileSync(join(folder, 'package.json'), `${JSON.stringify(whole, null, 2)}\n`);
  copyFileSync(join(source, 'README.md'), join(folder, 'README.md'));
  copyFileSync('LICENSE', join(folder, 'LICENSE'));
  writeFileSync(join(folder, 'THIRD-PARTY-NOTICES.txt'), notices(contained));
  return { name, version, folder };
}

/** Returns the names and licences of packages, with the texts that these ask to pass on. */
function notices(folders: readonly string[]): string {
  const parts = folders.map((folder) => {
    const { name, version, license, author } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const file = readdirSync(folder).find((each) => /^licen[cs]e/i.test(each));
    const holder = typeof author === 'string' ? author : author?.name;
    if (file === undefined && holder === undefined)
      throw new Error(`${name} names neither its licence nor its author.`);
    const text =
      file === undefined ? `Copyright: ${holder}. Licence: ${license}.` : readFileSync(join(folder, file), 'utf8');
    return `${name} ${version}\n\n${text.trim().replaceAll('\r', '')}\n`;
  });
  const rule = `\n${'-'.repeat(80)}\n\n`;
  return ['This package contains code of the packages below, under their licences.\n', ...parts].join(rule);
}
