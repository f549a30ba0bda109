import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { linkSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { describeArtifactStore } from '../../../../testing/artifact-store-suite.ts';
import { ContentMissingError } from './artifact-store.ts';
import { LocalStore } from './local-store.ts';

describeArtifactStore('in a folder', async (folder) => new LocalStore(join(folder, 'contents')));

describe('a content that a folder sets aside', () => {
  const sha256 = createHash('sha256').update('content').digest('hex');
  const signal = AbortSignal.timeout(60_000);
  let folder: string;
  let store: LocalStore;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'cloche-asides-'));
    store = new LocalStore(join(folder, 'contents'));
    await put();
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  async function put(): Promise<void> {
    const file = join(folder, 'staged');
    writeFileSync(file, 'content');
    await store.put(file, { sha256, sizeBytes: 7, keepsFile: true });
    rmSync(file);
  }
  const setAside = async () => (await store.asides?.setAside(sha256)) ?? assert.fail();
  const fileAside = () => {
    const group = dirname(store.fileOf(sha256));
    return join(group, readdirSync(group).find((file) => file.includes('aside')) ?? assert.fail());
  };
  const read = async () => text(await store.read(sha256, undefined, signal));
  const asides = async () => (await Array.fromAsync(store.asides?.list() ?? [])).length;
  const listed = async () => (await Array.fromAsync(store.list())).map(({ name }) => name);

  it('a content that a folder sets aside can be read, but counts as missing', async () => {
    await setAside();
    assert.equal(await read(), 'content');
    assert.deepEqual([await store.has(sha256), await listed(), await asides()], [false, [], 1]);
    assert.equal(await store.asides?.setAside(sha256), undefined);
  });

  it('a content that a folder sets aside is read to its end by a reader that opened it earlier', async () => {
    const reading = await store.read(sha256, undefined, signal);
    await (await setAside()).remove();
    assert.equal(await text(reading), 'content');
    await assert.rejects(read(), ContentMissingError);
  });

  it('a content that a folder sets aside is what it was after it is put back, also twice', async () => {
    const { mtimeMs } = statSync(store.fileOf(sha256));
    const content = await setAside();
    await content.putBack();
    await content.putBack();
    assert.deepEqual([await read(), await listed(), await asides()], ['content', [sha256], 0]);
    assert.equal(statSync(store.fileOf(sha256)).mtimeMs, mtimeMs);
  });

  for (const step of ['putBack', 'remove'] as const) {
    it(`a content that a folder sets aside does not affect a content that was stored since, when ${step} comes late`, async () => {
      const content = await setAside();
      await put();
      const { ino } = statSync(store.fileOf(sha256));
      await content[step]();
      assert.deepEqual([statSync(store.fileOf(sha256)).ino, await listed(), await asides()], [ino, [sha256], 0]);
    });

    it(`a content that a folder sets aside does not affect a later removal of the same content, when ${step} comes late`, async () => {
      const first = await setAside();
      await put();
      const second = await setAside();
      await first[step]();
      await second.putBack();
      assert.deepEqual([await read(), await listed(), await asides()], ['content', [sha256], 0]);
    });
  }

  it('a content that a folder sets aside loses its second name if a server ended while it put the content back', async () => {
    await setAside();
    const [aside] = await Array.fromAsync(store.asides?.list() ?? []);
    linkSync(fileAside(), store.fileOf(sha256));
    await aside?.putBack();
    assert.deepEqual([await read(), await asides()], ['content', 0]);
  });
});
