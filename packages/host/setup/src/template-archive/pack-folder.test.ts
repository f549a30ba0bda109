import assert from 'node:assert/strict';
import { linkSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { packFolder } from './pack-folder.ts';

const FILE_BYTES = 8 * 1024 * 1024;

test('a folder is packed while another one takes its files as hard links', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-pack-'));
  const [file, link] = [join(folder, 'node'), `${folder}-link`];
  try {
    writeFileSync(file, Buffer.alloc(FILE_BYTES));
    let links = 0;
    // tar waits while a chunk is taken, so each link falls between its first and its last look at the file.
    const packed = await packFolder(folder, ['.'], async () => undefined, {
      onBytes: () => {
        rmSync(link, { force: true });
        linkSync(file, link);
        links += 1;
      },
    });
    assert.ok(links > 1 && packed.plainBytes > FILE_BYTES, `${links} links`);
    await assert.rejects(
      packFolder(folder, ['missing'], async () => undefined),
      /missing: Cannot stat/,
    );
  } finally {
    for (const path of [folder, link]) rmSync(path, { recursive: true, force: true });
  }
});
