import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ArchiveEntry } from './archive-entry.ts';
import { readTar, readTarGroups } from './read-tar.ts';
import { writeTarHeader } from './tar-header.ts';

const SMALL_BYTES = 64 * 1024;

function entryOf(name: string, content: Buffer, flag = '0'): Buffer {
  const header = writeTarHeader({ name, flag, mode: 0o644, size: content.length, mtime: 1, linkName: '' });
  return Buffer.concat([header, content, Buffer.alloc((512 - (content.length % 512)) % 512)]);
}

const LONG = 'n'.repeat(150);
const CONTENTS = new Map([
  ['empty', Buffer.alloc(0)],
  ['small', Buffer.from('small')],
  [LONG, Buffer.alloc(512, 'l')],
  ['large', Buffer.alloc(SMALL_BYTES + 1, 'large')],
  ['after', Buffer.from('after')],
]);
const ARCHIVE = Buffer.concat([...[...CONTENTS].map(([name, content]) => entryOf(name, content)), Buffer.alloc(1024)]);

/** Yields the bytes in chunks that all have the same memory, which the next chunk overwrites. */
async function* chunksOf(bytes: Buffer, length: number): AsyncGenerator<Buffer, void> {
  const memory = Buffer.alloc(length);
  for (let at = 0; at < bytes.length; at += length) {
    memory.fill(0xff);
    yield memory.subarray(0, bytes.copy(memory, 0, at, at + length));
  }
}

async function contentsOf(group: readonly ArchiveEntry[], into: Map<string, Buffer>): Promise<void> {
  for (const { name, content } of group) {
    const parts: Buffer[] = [];
    for await (const part of content) parts.push(Buffer.from(part));
    into.set(name, Buffer.concat(parts));
  }
}

describe('a tar', () => {
  for (const length of [1, 511, 700, 66_000, 1_000_000]) {
    it(`a tar is read in chunks of ${length} bytes, whose memory is used again`, async () => {
      const read = new Map<string, Buffer>();
      for await (const group of readTarGroups(chunksOf(ARCHIVE, length))) await contentsOf(group, read);
      assert.deepEqual(read, CONTENTS);
    });
  }

  it('a tar that has arrived is read in one step up to the next content that does not fit into memory', async () => {
    const names: string[][] = [];
    for await (const group of readTarGroups(chunksOf(ARCHIVE, ARCHIVE.length)))
      names.push(group.map(({ name }) => name));
    assert.deepEqual(names, [['empty', 'small', LONG, 'large'], ['after']]);
  });

  it('a tar may end without zeros, and with padding', async () => {
    for (const end of [Buffer.alloc(0), Buffer.alloc(20 * 512)]) {
      const names: string[] = [];
      for await (const { name } of readTar(chunksOf(Buffer.concat([entryOf('a', Buffer.from('a')), end]), 300))) {
        names.push(name);
      }
      assert.deepEqual(names, ['a']);
    }
  });

  it('a tar has the extended attributes of an entry, and none for the next one', async () => {
    const xattrs = new Map([
      ['user.note', 'n'.repeat(90)],
      ['security.capability', '\u0001\u0000\u00ff\n=2'],
    ]);
    const header = { flag: '0', mode: 0o644, size: 0, mtime: 1, linkName: '' };
    const bytes = Buffer.concat([
      writeTarHeader({ ...header, name: LONG, xattrs }),
      writeTarHeader({ ...header, name: 'next' }),
    ]);
    const read: [string, unknown][] = [];
    for await (const entry of readTar(chunksOf(bytes, 300))) read.push([entry.name, entry.xattrs]);
    assert.deepEqual(read, [
      [LONG, xattrs],
      ['next', undefined],
    ]);
  });

  it('a tar yields the entries before one that is refused', async () => {
    const bytes = Buffer.concat([entryOf('fine', Buffer.from('x')), entryOf('device', Buffer.alloc(0), '3')]);
    const names: string[] = [];
    await assert.rejects(
      async () => {
        for await (const { name } of readTar(chunksOf(bytes, bytes.length))) names.push(name);
      },
      { code: 'bad_archive', message: /"device" is a device/ },
    );
    assert.deepEqual(names, ['fine']);
  });

  for (const [title, bytes, why] of [
    ['in a header', ARCHIVE.subarray(0, 500), /ends before its last entry/],
    ['in the padding of a file', entryOf('a', Buffer.from('a')).subarray(0, 1000), /ends before its last entry/],
    ['in a file that is skipped', ARCHIVE.subarray(0, 50_000), /ends before its last entry/],
  ] as const) {
    it(`a tar is refused if it breaks off ${title}`, async () => {
      await assert.rejects(
        async () => {
          for await (const _ of readTar(chunksOf(bytes, 4096)));
        },
        { code: 'bad_archive', message: why },
      );
    });
  }

  it('a tar is refused if a record gives a negative size', async () => {
    const bytes = Buffer.concat([entryOf('x', Buffer.from('11 size=-5\n'), 'x'), entryOf('a', Buffer.from('a'))]);
    await assert.rejects(
      async () => {
        for await (const _ of readTar(chunksOf(bytes, 4096)));
      },
      { code: 'bad_archive', message: /invalid size in a pax header/ },
    );
  });
});
