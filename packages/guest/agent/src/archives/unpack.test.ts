import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { ArchiveEntry } from '@cloche/archive';
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

const into = (
  groups: AsyncIterable<readonly ArchiveEntry[]>,
  limits = {},
  system = new FileSystem(ROOT_RIGHTS),
  signal = new AbortController().signal,
) => unpack(groups, folder as FilePath, system, { maxEntries: 100, maxBytes: 1000, ...limits }, signal);

describe('an archive without measure', () => {
  it('an archive without measure is refused by the number of its entries, and nothing of it stays', async () => {
    await assert.rejects(into(bomb(0)), { code: 'bad_archive', message: /cannot have more than 100 entries/ });
    assert.deepEqual(readdirSync(folder), []);
  });

  it('an archive without measure is refused by the size of what it holds, and nothing of it stays', async () => {
    await assert.rejects(into(bomb(64)), { code: 'disk_full' });
    assert.deepEqual(readdirSync(folder), []);
  });

  it('an archive without measure cannot be as large as the disk has room, whatever its limit', async () => {
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

describe('an archive whose unpacking is ended', () => {
  /** Yields 200 empty files, then calls `last`. */
  async function* files(last = () => {}): AsyncGenerator<readonly ArchiveEntry[], void> {
    const empty = { type: 'file', mode: 0o644, mtime: 0, target: '', sizeBytes: 0, bytes: Buffer.alloc(0) } as const;
    const content = (async function* () {})();
    yield Array.from({ length: 200 }, (_, index) => ({ ...empty, name: `${index}`, content }));
    last();
  }

  it('an archive whose unpacking is ended leaves nothing if nothing was moved into place yet', async () => {
    const ending = new AbortController();
    const end = () => ending.abort(new Error('a later attempt'));
    await assert.rejects(into(files(end), { maxEntries: 500 }, undefined, ending.signal), /a later attempt/);
    assert.deepEqual(readdirSync(folder), []);
  });

  it('an archive whose unpacking is ended moves no further entries into place', async () => {
    const ending = new AbortController();
    const system = new FileSystem(ROOT_RIGHTS);
    let moved = 0;
    const rename = system.rename.bind(system);
    system.rename = (...move) => {
      moved += 1;
      ending.abort(new Error('a later attempt'));
      rename(...move);
    };
    await assert.rejects(into(files(), { maxEntries: 500 }, system, ending.signal), /a later attempt/);
    assert.equal(readdirSync(folder).length, moved);
    assert.ok(moved < 200, String(moved));
  });
});
