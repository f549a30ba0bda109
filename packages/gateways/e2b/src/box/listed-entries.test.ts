import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { create, fromBinary, fromJsonString } from '@bufbuild/protobuf';
import type { FileEntry } from '@cloche/contract';
import { createContextValues } from '@connectrpc/connect';
import { ListDirResponseSchema } from '../generated/filesystem/filesystem_pb.js';
import { entryInfo } from './entry-info.ts';
import { ENTRIES, entriesIn, withEntries } from './listed-entries.ts';

const MEBIBYTE = 1024 * 1024;
const LISTS = 8;
/** Entries of some 3,300 bytes: 3 MB, more than what a listing may hold. */
const LARGE = 1_000;
/** Pieces between two measurements. */
const MEASURED = 25;

const entry = (name: string, more: Partial<FileEntry> = {}): FileEntry => ({
  path: `/workspace/${name}`,
  name,
  type: 'file',
  sizeBytes: 1,
  mode: '0644',
  uid: 1000,
  gid: 1000,
  modifiedAt: '2026-01-31T09:00:00.000Z',
  ...more,
});
const listOf = (entries: readonly FileEntry[]) => JSON.stringify({ data: entries, hasMore: false });

/** Returns bytes in pieces of a length. */
async function* pieces(bytes: Uint8Array, length: number): AsyncGenerator<Uint8Array, void> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}

describe('the entries of a list', () => {
  const LISTED: Readonly<Record<string, readonly FileEntry[]>> = {
    'no entry': [],
    'one entry': [entry('a')],
    'names with brackets and quotes': [
      entry('}],"hasMore":false}'),
      entry('[{'),
      entry('"'),
      entry('\\"}'),
      entry('\\'),
    ],
    'names of several bytes and of halves of a pair': [entry('é€😀'), entry('\ud83d'), entry('\udc00')],
    'attributes and what a link leads to': [
      entry('link', { type: 'symlink', target: 'a', resolved: { path: '/a', type: 'directory' } }),
      entry('b', { attributes: { 'e2b.a': '{"b":[1]}', other: '' } }),
    ],
  };
  for (const [what, listed] of Object.entries(LISTED)) {
    it(`the entries of a list are the same however the bytes are cut: ${what}`, async () => {
      const bytes = Buffer.from(listOf(listed));
      for (let length = 1; length <= bytes.length; length += length < 8 ? 1 : 37) {
        assert.deepEqual(await Array.fromAsync(entriesIn(pieces(bytes, length))), listed);
      }
    });
  }

  it('the entries of a list are an error where the list breaks off', async () => {
    const bytes = Buffer.from(listOf([entry('a'), entry('b')]));
    for (const end of [1, 9, 20, bytes.length - 20, bytes.length - 1]) {
      await assert.rejects(Array.fromAsync(entriesIn(pieces(bytes.subarray(0, end), 7))), /broke off/);
    }
  });
});

describe('a response with entries', () => {
  const found = [entry('a'), entry('é'), entry('c', { attributes: { 'e2b.k': 'v' } })].map(entryInfo);
  const valuesOf = (infos: typeof found) =>
    createContextValues().set(
      ENTRIES,
      (async function* () {
        yield* infos;
      })(),
    );
  const responseOf = (type: string, status = 200) => ({
    status,
    header: new Headers({ 'content-type': type, 'content-length': '2' }),
    body: pieces(Buffer.from('{}'), 2),
  });
  const read = async (type: string, infos: typeof found) => {
    const { body = pieces(Buffer.alloc(0), 1), header } = withEntries(responseOf(type), valuesOf(infos));
    assert.equal(header?.has('content-length'), false);
    return Buffer.concat(await Array.fromAsync(body as AsyncIterable<Uint8Array>));
  };

  it('a response with entries has them as the message of Connect has them, in JSON and in binary', async () => {
    for (const infos of [[], found.slice(0, 1), found]) {
      const expected = create(ListDirResponseSchema, { entries: infos });
      const json = (await read('application/json', infos)).toString();
      assert.deepEqual(fromJsonString(ListDirResponseSchema, json), expected);
      assert.deepEqual(fromBinary(ListDirResponseSchema, await read('application/proto', infos)), expected);
    }
  });

  it('a response with entries is the one of Connect for a refusal, and for all other calls', () => {
    const refused = responseOf('application/json', 404);
    assert.equal(withEntries(refused, valuesOf(found)), refused);
    const other = responseOf('application/json');
    assert.equal(withEntries(other, createContextValues()), other);
  });

  it('a response with entries holds less than 2 MiB for each of many large listings at once', async () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const name = (index: number) => String(index).padStart(1_600, 'x');
    async function* list(): AsyncGenerator<Uint8Array, void> {
      yield Buffer.from('{"data":[');
      for (let index = 0; index < LARGE; index += 1) {
        yield Buffer.from(`${index === 0 ? '' : ','}${JSON.stringify(entry(name(index)))}`);
      }
      yield Buffer.from('],"hasMore":false}');
    }
    async function* infos() {
      for await (const each of entriesIn(list())) yield entryInfo(each);
    }
    collect();
    const before = process.memoryUsage();
    const bodies = Array.from({ length: LISTS }, () => {
      const { body } = withEntries(responseOf('application/json'), createContextValues().set(ENTRIES, infos()));
      return (body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]();
    });
    let [sent, most] = [0, 0];
    for (let [open, round] = [true, 0]; open; round += 1) {
      const results = await Promise.all(bodies.map((body) => body.next()));
      for (const { value } of results) sent += value?.length ?? 0;
      open = results.some(({ done }) => !done);
      if (round % MEASURED !== MEASURED - 1) continue;
      collect();
      const { heapUsed, external } = process.memoryUsage();
      most = Math.max(most, heapUsed + external - before.heapUsed - before.external);
    }
    assert.ok(most > 0);
    assert.ok(sent > LISTS * LARGE * 3_200, `${sent} bytes`);
    assert.ok(most < 2 * LISTS * MEBIBYTE, `${most / LISTS / MEBIBYTE} MiB for each`);
  });
});
