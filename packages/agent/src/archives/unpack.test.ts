import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { ArchiveEntry } from '@cloche/protocol';
import type { FilePath } from '../files/file-path.ts';
import { FileSystem } from '../files/file-system.ts';
import { ROOT_RIGHTS } from '../files/rights.ts';
import { unpack } from './unpack.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-unpack-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Yields an endless series of files, like an archive bomb. */
async function* bomb(bytesEach: number): AsyncGenerator<readonly ArchiveEntry[], void> {
  for (let index = 0; ; index += 1) {
    const content = (async function* () {
      yield Buffer.alloc(bytesEach);
    })();
    yield [{ name: `deep/${index}`, type: 'file', mode: 0o644, mtime: 0, target: '', sizeBytes: bytesEach, content }];
  }
}

const into = (groups: AsyncIterable<readonly ArchiveEntry[]>, limits = {}) =>
  unpack(groups, folder as FilePath, new FileSystem(ROOT_RIGHTS), { maxEntries: 100, maxBytes: 1000, ...limits });

describe('an archive without measure', () => {
  it('is refused by the number of its entries, and nothing of it stays', async () => {
    await assert.rejects(into(bomb(0)), { code: 'bad_archive', message: /cannot have more than 100 entries/ });
    assert.deepEqual(readdirSync(folder), []);
  });

  it('is refused by the size of what it holds, and nothing of it stays', async () => {
    await assert.rejects(into(bomb(64)), { code: 'disk_full' });
    assert.deepEqual(readdirSync(folder), []);
  });

  it('cannot be as large as the disk has room, whatever its limit', async () => {
    const huge: ArchiveEntry = {
      name: 'huge',
      type: 'file',
      mode: 0o644,
      mtime: 0,
      target: '',
      sizeBytes: 2 ** 40,
      // The size is counted before the content is written, so an object that only claims its length is enough.
      content: (async function* () {
        const bytes = { length: 2 ** 40 } as Buffer;
        yield bytes;
      })(),
    };
    const one = (async function* () {
      yield [huge];
    })();
    await assert.rejects(into(one, { maxBytes: Number.MAX_SAFE_INTEGER }), { code: 'disk_full' });
    assert.deepEqual(readdirSync(folder), []);
  });
});
