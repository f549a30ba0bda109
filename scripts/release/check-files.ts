import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PUBLIC_KEY } from '../distribution/signing.ts';

/**
 * Checks the files of a release as a user who has downloaded them does: all are there, each has its checksum, and the
 * signature is of the key beside them.
 *
 * @param names files that the release must have
 * @throws an error that names each fault
 */
export function checkFiles(out: string, names: readonly string[], isSigned: boolean): void {
  const faults = names.filter((name) => !existsSync(join(out, name))).map((name) => `${name} is missing`);
  const sums = join(out, 'SHA256SUMS');
  if (!existsSync(sums)) faults.push('SHA256SUMS is missing');
  else {
    const listed = readFileSync(sums, 'utf8')
      .split('\n')
      .map((line) => line.split('  ')[1]);
    faults.push(...names.filter((name) => !listed.includes(name)).map((name) => `SHA256SUMS does not list ${name}`));
    const { status, stdout } = spawnSync('sha256sum', ['--check', '--strict', '--quiet', 'SHA256SUMS'], {
      cwd: out,
      encoding: 'utf8',
    });
    if (status !== 0) faults.push(...(stdout.trim() || 'SHA256SUMS lists no file').split('\n'));
    faults.push(...faultsOfSignature(out, isSigned));
  }
  if (faults.length > 0) throw new Error(`The release must not be published:\n  ${faults.join('\n  ')}`);
}

function faultsOfSignature(out: string, isSigned: boolean): string[] {
  const has = (name: string) => existsSync(join(out, name));
  if (!isSigned) return has('SHA256SUMS.asc') ? ['SHA256SUMS.asc is of an earlier release'] : [];
  const missing = ['SHA256SUMS.asc', PUBLIC_KEY].filter((name) => !has(name));
  if (missing.length > 0) return missing.map((name) => `${name} is missing`);
  const folder = mkdtempSync(join(tmpdir(), 'cloche-keyring-'));
  try {
    const keyring = join(folder, 'keyring.gpg');
    execFileSync('gpg', [
      '--homedir',
      folder,
      '--batch',
      '--quiet',
      '--output',
      keyring,
      '--dearmor',
      join(out, PUBLIC_KEY),
    ]);
    const { status } = spawnSync('gpgv', ['--keyring', keyring, 'SHA256SUMS.asc', 'SHA256SUMS'], { cwd: out });
    return status === 0 ? [] : [`SHA256SUMS.asc is no signature of SHA256SUMS by the key in ${PUBLIC_KEY}`];
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
