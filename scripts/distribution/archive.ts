import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { manualPage } from './manual-page.ts';
import { settingsList } from './settings-list.ts';
import { linkTree, normalise, releaseTime, type Tree } from './tree.ts';

/**
 * Packs a tree for distributions without a package, with units, settings and manual page beside it. It is unpacked in
 * `/opt`. Returns its path in `out`.
 */
export async function packArchive(tree: Tree, out: string, version: string): Promise<string> {
  const parent = mkdtempSync(join(tmpdir(), 'cloche-archive-'));
  try {
    const folder = join(parent, 'cloche');
    linkTree(tree, folder);
    cpSync('deploy/systemd', join(folder, 'deploy/systemd'), { recursive: true });
    mkdirSync(join(folder, 'share/man/man1'), { recursive: true });
    writeFileSync(join(folder, 'share/man/man1/cloche.1'), await manualPage(version, releaseTime()));
    writeFileSync(join(folder, 'settings.env'), settingsList());
    cpSync('deploy/cloche.env', join(folder, 'cloche.env'));
    normalise(parent);
    const file = join(out, `cloche-${version}-linux-${tree.architecture}.tar.gz`);
    const order = ['--sort=name', '--format=gnu', `--mtime=@${releaseTime()}`];
    const owner = ['--owner=0', '--group=0', '--numeric-owner'];
    const target = ['--use-compress-program=gzip -n', '--file', `${file}.part`, '--directory', parent];
    execFileSync('tar', ['--create', ...order, ...owner, ...target, 'cloche']);
    renameSync(`${file}.part`, file);
    return file;
  } finally {
    rmSync(parent, { recursive: true });
  }
}
