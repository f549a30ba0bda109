import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { releaseFiles, templateArchives } from '../release/release-files.ts';
import { sign } from './signing.ts';

/** Writes and signs the checksums of all files of a version in `out`. Returns the names of the files. */
export function writeChecksums(out: string, version: string, key?: string): string[] {
  const made = releaseFiles(version).filter((name) => existsSync(join(out, name)));
  const names = [...made, ...templateArchives(out, version)];
  const sums = names.map((name) => `${sha256(join(out, name))}  ${name}\n`);
  const file = join(out, 'SHA256SUMS');
  writeFileSync(file, sums.join(''));
  sign(file, '--detach-sign', `${file}.asc`, key);
  return names;
}

function sha256(file: string): string {
  return createHash('sha256').update(readFileSync(file)).digest('hex');
}
