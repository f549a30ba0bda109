import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** File with the public key, for those who verify a release. */
export const PUBLIC_KEY = 'cloche-archive-keyring.asc';

/** Signs a file by gpg, beside it or with its content. Without a key, removes the signature of an earlier release. */
export function sign(file: string, how: '--detach-sign' | '--clear-sign', signature: string, key?: string): void {
  rmSync(signature, { force: true });
  if (key === undefined) return;
  gpg('--local-user', key, '--armor', '--output', signature, how, file);
  const publicKey = join(dirname(file), PUBLIC_KEY);
  rmSync(publicKey, { force: true });
  gpg('--armor', '--output', publicKey, '--export', key);
}

function gpg(...args: string[]): void {
  execFileSync('gpg', ['--batch', '--quiet', ...args], { stdio: ['ignore', 'inherit', 'inherit'] });
}
