import { execFileSync } from 'node:child_process';
import { globSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Returns the tar of a root file system of the Debian package `busybox-static`, with a link for each program, and of
 * `packages`.
 */
export function busyboxRoot(...packages: readonly string[]): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-busybox-'));
  const root = join(folder, 'root');
  try {
    execFileSync('apt-get', ['download', '-qq', 'busybox-static', ...packages], {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    for (const file of globSync('*.deb', { cwd: folder }))
      execFileSync('dpkg-deb', ['--extract', join(folder, file), root]);
    const script =
      'for name in $(bin/busybox --list); do [ -e bin/$name ] || ln -s busybox bin/$name; done; rm -r usr/share';
    execFileSync('sh', ['-c', script], { cwd: root });
    return execFileSync('tar', ['-C', root, '-cf', '-', '.'], { maxBuffer: 100 * 1024 * 1024 });
  } finally {
    rmSync(folder, { recursive: true });
  }
}
