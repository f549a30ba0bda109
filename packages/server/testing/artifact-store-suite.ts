import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { type ArtifactStore, ContentMissingError } from '../src/artifacts/store/artifact-store.ts';

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

    it('gives back what was put, whole and in parts', async () => {
      const bytes = randomBytes(3_000_000);
      const sha256 = await put(bytes);
      assert.equal(await store.has(sha256), true);
      assert.ok((await buffer(await store.read(sha256, undefined, signal))).equals(bytes));
      const part = await buffer(await store.read(sha256, { start: 1_000_000, end: 1_999_999 }, signal));
      assert.ok(part.equals(bytes.subarray(1_000_000, 2_000_000)));
    });

    it('takes an empty content', async () => {
      const sha256 = await put(Buffer.alloc(0));
      assert.equal((await buffer(await store.read(sha256, undefined, signal))).length, 0);
    });

    it('takes the same content again', async () => {
      const bytes = randomBytes(1000);
      assert.equal(await put(bytes), await put(bytes));
    });

    it('refuses what does not have its digest, and keeps nothing of it', async () => {
      const { file, sizeBytes } = contentOf(randomBytes(1000));
      const sha256 = createHash('sha256').update('something else').digest('hex');
      await assert.rejects(store.put(file, { sha256, sizeBytes }));
      assert.equal(await store.has(sha256), false);
    });

    it('has no more what was removed, and never had what was not put', async () => {
      const sha256 = await put(randomBytes(1000));
      await store.remove(sha256);
      await store.remove(sha256);
      assert.equal(await store.has(sha256), false);
      await assert.rejects(store.read(sha256, undefined, signal), ContentMissingError);
    });

    it('lists what it has, with when it was put', async () => {
      const begunAt = Date.now();
      const sha256 = await put(randomBytes(1000));
      const listed = await Array.fromAsync(store.list());
      const found = listed.find((content) => content.sha256 === sha256);
      // Clocks of others may differ, and some count in seconds.
      assert.ok(found && Math.abs(found.storedAt - begunAt) < 60_000);
    });
  });
}
