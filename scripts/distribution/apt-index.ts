import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { sign } from './signing.ts';
import { releaseTime } from './tree.ts';

/**
 * Writes the index that makes `out` a source of apt, whatever serves the folder: of all packages in it, so that earlier
 * versions can be installed too. Signs it if there is a key.
 */
export function writeAptIndex(out: string, key?: string): void {
  const packages = ftparchive(out, 'packages', '.');
  writeFileSync(join(out, 'Packages'), packages);
  writeFileSync(join(out, 'Packages.gz'), gzipSync(packages));
  const fields = { Origin: 'Cloche', Label: 'Cloche', Date: new Date(releaseTime() * 1000).toUTCString() };
  const options = Object.entries(fields).flatMap(([name, value]) => [
    '-o',
    `APT::FTPArchive::Release::${name}=${value}`,
  ]);
  const file = join(out, 'Release');
  writeFileSync(file, ftparchive(out, ...options, 'release', '.'));
  sign(file, '--clear-sign', join(out, 'InRelease'), key);
}

function ftparchive(cwd: string, ...args: string[]): string {
  try {
    return execFileSync('apt-ftparchive', args, { cwd, encoding: 'utf8', maxBuffer: 64 * 1024 ** 2 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new Error('apt-ftparchive is missing: run `apt-get install apt-utils`.');
  }
}
