import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { type ArtifactStore, ContentMissingError } from '../src/features/artifacts/store/artifact-store.ts';

/** Every store passes this. `folder` is on the file system that the store may rename from. */
export function describeArtifactStore(name: string, open: (folder: string) => Promise<ArtifactStore>): void {
  describe(`artifact store ${name}`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-store-'));
    const signal = AbortSignal.timeout(60_000);
    let store: ArtifactStore;
    let files = 0;

    before(async () => {
      store = await open(folder);
    });
    after(async () => {
      await store?.close();
      rmSync(folder, { recursive: true, force: true });
    });

    const contentOf = (bytes: Buffer) => {
      const file = join(folder, `staged-${++files}`);
      writeFileSync(file, bytes);
      return { file, sizeBytes: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') };
    };
    const put = async (bytes: Buffer) => {
      const content = contentOf(bytes);
      await store.put(content.file, content);
      return content.sha256;
    };

    it(`artifact store ${name} gives back what was put, whole and in parts`, async () => {
      const bytes = randomBytes(3_000_000);
      const sha256 = await put(bytes);
      assert.equal(await store.has(sha256), true);
      assert.ok((await buffer(await store.read(sha256, undefined, signal))).equals(bytes));
      const part = await buffer(await store.read(sha256, { start: 1_000_000, end: 1_999_999 }, signal));
      assert.ok(part.equals(bytes.subarray(1_000_000, 2_000_000)));
    });

    it(`artifact store ${name} takes an empty content`, async () => {
      const sha256 = await put(Buffer.alloc(0));
      assert.equal((await buffer(await store.read(sha256, undefined, signal))).length, 0);
    });

    it(`artifact store ${name} takes the same content again`, async () => {
      const bytes = randomBytes(1000);
      assert.equal(await put(bytes), await put(bytes));
    });

    it(`artifact store ${name} refuses what does not have its digest, and keeps nothing of it`, async () => {
      const { file, sizeBytes } = contentOf(randomBytes(1000));
      const sha256 = createHash('sha256').update('something else').digest('hex');
      await assert.rejects(store.put(file, { sha256, sizeBytes }));
      assert.equal(await store.has(sha256), false);
    });

    it('prepares the removal of a content that it has', async () => {
      const sha256 = await put(randomBytes(1000));
      const prepared = (await store.prepareRemoval(sha256)) ?? assert.fail();
      assert.equal(await store.has(sha256), true);
      await prepared.send();
      assert.equal(await store.has(sha256), false);
      assert.equal(await store.prepareRemoval(sha256), undefined);
    });

    it(`artifact store ${name} has no more what was removed, and never had what was not put`, async () => {
      const sha256 = await put(randomBytes(1000));
      await store.remove(sha256);
      await store.remove(sha256);
      assert.equal(await store.has(sha256), false);
      await assert.rejects(store.read(sha256, undefined, signal), ContentMissingError);
    });

    it(`artifact store ${name} stores a content under a name of its own, beside the same content under its digest`, async () => {
      const bytes = randomBytes(1000);
      const sha256 = await put(bytes);
      const content = contentOf(bytes);
      const name = randomBytes(32).toString('hex');
      await store.put(content.file, { ...content, name });
      await store.remove(sha256);
      assert.deepEqual([await store.has(name), await store.has(sha256)], [true, false]);
      assert.ok((await buffer(await store.read(name, undefined, signal))).equals(bytes));
      const file = store.fileOf(name);
      if (file !== undefined) assert.ok(readFileSync(file).equals(bytes));
    });

    it(`artifact store ${name} lets a client store a content itself if it is a bucket, and only that content`, async () => {
      const bytes = randomBytes(1000);
      const { sha256, sizeBytes } = contentOf(bytes);
      const name = randomBytes(32).toString('hex');
      const signed = await store.signPut({ name, sha256, sizeBytes }, 60_000);
      assert.equal(signed === undefined, store.fileOf(name) !== undefined);
      if (!signed) return;
      const send = (body: Buffer, headers = signed.headers) => fetch(signed.url, { method: 'PUT', headers, body });
      for (const [other, headers] of [
        [randomBytes(1000), signed.headers],
        [randomBytes(1001), { ...signed.headers, 'content-length': '1001' }],
        [randomBytes(1000), {}],
      ] as const) {
        const { ok } = await send(other, headers);
        assert.deepEqual([ok, await store.has(name)], [false, false]);
      }
      const answer = await send(bytes);
      assert.equal(answer.status, 200, await answer.text());
      assert.ok((await buffer(await store.read(name, undefined, signal))).equals(bytes));
    });

    it(`artifact store ${name} lists what it has, with when it was put`, async () => {
      const begunAt = Date.now();
      const sha256 = await put(randomBytes(1000));
      const listed = await Array.fromAsync(store.list());
      const found = listed.find((content) => content.name === sha256);
      // Clocks of others may differ, and some count in seconds.
      assert.ok(found && Math.abs(found.storedAt - begunAt) < 60_000);
    });
  });
}
