import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  closeSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { idRangeOfSlot } from '../base/id-range.ts';
import { checkDisk } from './check-disk.ts';

/** A program in place of e2fsck that does what a disk could make it do, and writes what came of it to the image. */
const HOSTILE = `#!/usr/bin/env python3
import os, re
with open('/proc/self/fd/3', 'w') as image:
    print(*re.findall('^(?:Cap|NoNewPrivs|Uid|Groups).*', open('/proc/self/status').read(), re.M), sep='\\n', file=image)
    print('links', os.listdir('/sys/class/net'), open('/proc/self/net/dev').read().count(':'), file=image)
    for act in (
        lambda: open('/etc/shadow'),
        lambda: os.kill(TEST, 0),
        lambda: open('FOLDER/other', 'w'),
        lambda: open('FOLDER/own', 'w'),
        lambda: bytearray(3 * 2 ** 30),
    ):
        try: print('done', act(), file=image)
        except (OSError, MemoryError) as error: print('refused', type(error).__name__, file=image)
`;

let folder: string;
let fd: number;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-check-'));
  chmodSync(folder, 0o755);
  writeFileSync(join(folder, 'image'), '');
  chmodSync(join(folder, 'image'), 0o600);
  fd = openSync(join(folder, 'image'), 'r+');
});
afterEach(() => {
  closeSync(fd);
  rmSync(folder, { recursive: true });
});

test('the check of a disk has no capability and no network, and owns nothing but the disk', async () => {
  const before = process.env.PATH;
  writeFileSync(join(folder, 'own'), 'own');
  writeFileSync(join(folder, 'e2fsck'), HOSTILE.replaceAll('FOLDER', folder).replace('TEST', String(process.pid)), {
    mode: 0o755,
  });
  process.env.PATH = `${folder}:${before}`;
  try {
    await checkDisk(fd, idRangeOfSlot(4321));
  } finally {
    process.env.PATH = before;
  }
  const seen = readFileSync(join(folder, 'image'), 'utf8');
  const { base } = idRangeOfSlot(4321);
  assert.match(seen, new RegExp(`^Uid:\\s+${base}\\s+${base}\\s+${base}\\s+${base}$`, 'm'));
  for (const set of ['CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb'])
    assert.match(seen, new RegExp(`^${set}:\\s+0+$`, 'm'));
  assert.match(seen, /^NoNewPrivs:\s+1$/m);
  assert.match(seen, /^Groups:\s*$/m);
  assert.deepEqual(seen.match(/^(done|refused) .*/gm), [
    'refused PermissionError',
    // A process that it cannot see.
    'refused ProcessLookupError',
    'refused PermissionError',
    'refused PermissionError',
    'refused MemoryError',
  ]);
  assert.match(seen, /^links .* 1$/m, 'the loopback alone');
  assert.equal(readFileSync(join(folder, 'own'), 'utf8'), 'own');
  const { uid, gid, mode } = statSync(join(folder, 'image'));
  assert.deepEqual([uid, gid, mode & 0o777], [0, 0, 0o600]);
});

for (const mebibytes of [16, 64, 256, 1024, 4096]) {
  test(`the check of a disk of ${mebibytes} MiB passes one that is whole, and mends one whose first superblock is lost`, async () => {
    const image = join(folder, 'image');
    truncateSync(image, mebibytes * 2 ** 20);
    // As hostd makes them.
    const features = '^has_journal,^resize_inode,uninit_bg';
    const options = ['-m', '0', '-i', '16384', '-O', features, '-E', 'lazy_itable_init=1,nodiscard'];
    execFileSync('mkfs.ext4', ['-q', '-F', ...options, image]);
    await checkDisk(fd, idRangeOfSlot(4321));
    const superblock = Buffer.alloc(1024);
    readSync(fd, superblock, 0, superblock.length, 1024);
    writeSync(fd, Buffer.alloc(1024), 0, 1024, 1024);
    await checkDisk(fd, idRangeOfSlot(4321));
    const mended = Buffer.alloc(1024);
    readSync(fd, mended, 0, mended.length, 1024);
    assert.equal(mended.readUInt16LE(0x38), superblock.readUInt16LE(0x38));
  });
}

test('the check of a disk refuses one without a file system', async () => {
  truncateSync(join(folder, 'image'), 64 * 2 ** 20);
  await assert.rejects(checkDisk(fd, idRangeOfSlot(4321)), { code: 'disk_broken' });
});
