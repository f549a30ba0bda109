import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it, type TestContext } from 'node:test';
import { AdaptiveFile, THREAD_POOL } from './adaptive-file.ts';

let folder: string;
let handle: FileHandle;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-quick-'));
  handle = await open(join(folder, 'file'), 'w+');
});
afterEach(async () => {
  await handle.close();
  rmSync(folder, { recursive: true });
});

/** Counts the calls that went through threads. */
function asked({ mock }: TestContext) {
  const [reads, writes] = [mock.method(THREAD_POOL, 'read'), mock.method(THREAD_POOL, 'write')];
  return () => [reads.mock.callCount(), writes.mock.callCount()];
}

describe('a file that is quick', () => {
  it('a file that is quick is read and written at the given position, without a thread', async (test) => {
    const file = new AdaptiveFile(handle.fd, () => 0);
    const threads = asked(test);
    const bytes = randomBytes(100_000);
    await file.write(bytes, 60_000, 10);
    assert.ok(readFileSync(join(folder, 'file')).subarray(10).equals(bytes.subarray(0, 60_000)));
    const into = Buffer.alloc(100_000);
    assert.equal(await file.read(into, 50_000, 20), 50_000);
    assert.ok(into.subarray(0, 50_000).equals(bytes.subarray(10, 50_010)));
    assert.equal(await file.read(into, 50_000, 60_000), 10);
    assert.equal(await file.read(into, 50_000, 70_000), 0);
    assert.deepEqual(threads(), [0, 0]);
  });

  it('a file that is quick that was slow is left to threads for a while, with the same bytes, and then tried again', async (test) => {
    let [now, takesMs] = [0, 5];
    const file = new AdaptiveFile(handle.fd, () => (now += takesMs));
    const threads = asked(test);
    const bytes = randomBytes(40_000);
    for (let at = 0; at < bytes.length; at += 1000) {
      await file.write(bytes.subarray(at), 1000, at);
      takesMs = 1;
    }
    assert.deepEqual(threads(), [0, 32]);
    assert.ok(readFileSync(join(folder, 'file')).equals(bytes));
    takesMs = 5;
    const into = Buffer.alloc(bytes.length);
    for (let at = 0; at < bytes.length; at += 1000) await file.read(into.subarray(at), 1000, at);
    // Both synchronous attempts were slow.
    assert.deepEqual(threads(), [38, 32]);
    assert.ok(into.equals(bytes));
  });

  it('a file that is quick fails as the system does, either way', async () => {
    const full = await open('/dev/full', 'w');
    try {
      for (const takesMs of [0, 5]) {
        let now = 0;
        const file = new AdaptiveFile(full.fd, () => (now += takesMs));
        for (let attempt = 0; attempt < 2; attempt += 1)
          await assert.rejects(file.write(Buffer.alloc(10), 10, 0), { code: 'ENOSPC' });
      }
    } finally {
      await full.close();
    }
  });
});
