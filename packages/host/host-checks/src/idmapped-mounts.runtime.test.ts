import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { checkIdmappedMounts } from './kernel-checks.ts';

describe('idmapped mounts of the cache folder', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-idmapped-'));
    for (const name of ['lower', 'upper', 'work', 'overlay']) mkdirSync(join(folder, name));
    const layers = ['lower', 'upper', 'work'].map((name) => `${name}dir=${join(folder, name)}`).join(',');
    execFileSync('mount', ['-t', 'overlay', 'overlay', '-o', layers, join(folder, 'overlay')]);
  });
  after(() => {
    execFileSync('umount', [join(folder, 'overlay')]);
    rmSync(folder, { recursive: true });
  });

  it('idmapped mounts of the cache folder are tried where the cache will be', async () => {
    const { status, found } = await checkIdmappedMounts(join(folder, 'not', 'yet'));
    assert.equal(status, 'ok', found);
  });

  it('idmapped mounts of the cache folder are missing on overlayfs, as in containers, and the remedy says where to put the cache', async () => {
    const { status, found, remedy } = await checkIdmappedMounts(join(folder, 'overlay', 'cache'));
    assert.equal(status, 'missing');
    assert.match(found, /^none on overlay, .*mount_setattr/);
    assert.match(remedy, /CLOCHE_CACHE_DIR/);
  });
});
