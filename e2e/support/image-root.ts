import { execFileSync } from 'node:child_process';
import { globSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Makes apt list all dependencies, and take the distribution's versions where others are installed. */
const NOTHING_INSTALLED = ['-o', 'Dir::State::status=/dev/null'];

/**
 * Returns the tar of a root file system of the Debian package `busybox-static`, with a link for each program, and of
 * `packages`.
 */
export function busyboxRoot(...packages: readonly string[]): Buffer {
  return rootOf(packages, 'rm -r usr/share');
}

/** Returns the tar of a root file system that has Debian's `packages` and all that they depend on, beside busybox. */
export function debianRoot(...packages: readonly string[]): Buffer {
  const options = [...NOTHING_INSTALLED, '--no-install-recommends', '--print-uris', '-qq'];
  const uris = execFileSync('apt-get', [...options, 'install', ...packages], { encoding: 'utf8' });
  const names = uris.matchAll(/^\S+ ([^_\s]+)_/gm).map(([, name = '']) => name);
  return rootOf([...names], 'rm -r usr/share/doc usr/share/man usr/share/locale');
}

/** @param script shell lines to run in the root at last */
function rootOf(packages: readonly string[], script: string): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-image-root-'));
  const root = join(folder, 'root');
  try {
    execFileSync('apt-get', [...NOTHING_INSTALLED, 'download', '-qq', 'busybox-static', ...packages], {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    for (const file of globSync('*.deb', { cwd: folder }))
      execFileSync('dpkg-deb', ['--extract', join(folder, file), root]);
    const links = 'for name in $(bin/busybox --list); do [ -e bin/$name ] || ln -s busybox bin/$name; done';
    execFileSync('sh', ['-c', `${links}; ${script}`], { cwd: root });
    return execFileSync('tar', ['-C', root, '-cf', '-', '.'], { maxBuffer: 1024 * 1024 * 1024 });
  } finally {
    rmSync(folder, { recursive: true });
  }
}
