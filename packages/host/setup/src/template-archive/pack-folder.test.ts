import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { linkSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { test } from 'node:test';
import { createZstdCompress } from 'node:zlib';
import { inBlocks, packFolder } from './pack-folder.ts';

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

test('the same bytes are compressed to the same bytes, however a pipe cuts them', async () => {
  // Bytes of a program: repetition alone would compress to the same bytes for any cut.
  const bytes = readFileSync(process.execPath).subarray(0, 3_000_000);
  const digestOf = async (cutBytes: (index: number) => number) => {
    const hash = createHash('sha256');
    function* cut() {
      for (let at = 0, index = 0; at < bytes.length; index += 1) {
        const end = at + cutBytes(index);
        yield bytes.subarray(at, end);
        at = end;
      }
    }
    await pipeline(Readable.from(cut()), inBlocks, createZstdCompress(), async (chunks: AsyncIterable<Buffer>) => {
      for await (const chunk of chunks) hash.update(chunk);
    });
    return hash.digest('hex');
  };
  const whole = await digestOf(() => 65_536);
  for (const most of [1, 3, 7, 40, 127])
    assert.equal(await digestOf((index) => 512 * (1 + ((index * 37) % most))), whole, `${most} records`);
});
