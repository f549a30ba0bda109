import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { closeSync, fstatSync, mkdtempSync, openSync, readdirSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { LentBytes, sendBody } from '@cloche/runtime/byte-transfer';
import { eventually } from '@cloche/testkit/eventually';
import { openVerified } from './verified-file.ts';

const BYTES = randomBytes(1_000_000);
const CONTENT = { sha256: createHash('sha256').update(BYTES).digest('hex'), sizeBytes: BYTES.length };

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-verified-'));
  file = join(folder, 'content');
  writeFileSync(file, BYTES);
});
afterEach(async () => {
  await eventually(() => !isOpen(), { because: 'the file is closed' });
  rmSync(folder, { recursive: true });
});

/** Returns whether this process has the file open. */
function isOpen(): boolean {
  return readdirSync('/proc/self/fd').some((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`) === file;
    } catch {
      // The descriptor of this listing.
      return false;
    }
  });
}

describe('a stored file', () => {
  it('a stored file is sent as it is', async () => {
    const parts: Buffer[] = [];
    // Takes the bytes later than `write` returns, as a socket does.
    const write = (bytes: Buffer, _: BufferEncoding, done: () => void) => {
      setImmediate(() => {
        parts.push(Buffer.from(bytes));
        done();
      });
    };
    await sendBody(await openVerified(file, CONTENT), new Writable({ write }));
    assert.ok(Buffer.concat(parts).equals(BYTES));
  });

  it('a stored file is read as it is', async () => {
    assert.ok((await buffer(await openVerified(file, CONTENT))).equals(BYTES));
  });

  for (const [title, damaged] of [
    ['with another byte at its end', Buffer.concat([BYTES.subarray(1), BYTES.subarray(0, 1)])],
    ['that is too short', BYTES.subarray(0, 900_000)],
    ['that is empty', Buffer.alloc(0)],
  ] as const) {
    it(`${title} breaks off before its end`, async () => {
      writeFileSync(file, damaged);
      let received = 0;
      await assert.rejects(async () => {
        for await (const chunk of await openVerified(file, CONTENT)) received += chunk.length;
      }, /is damaged/);
      assert.ok(received < damaged.length || damaged.length === 0);
    });
  }

  it('a stored file is closed when it is not read, or not to its end', async () => {
    (await openVerified(file, CONTENT)).destroy();
    for await (const _ of await openVerified(file, CONTENT)) break;
  });

  it('a stored file is closed once and read no more, at whichever moment its reader leaves', async () => {
    for (let turns = 0; turns < 30; turns += 1) {
      const content = await openVerified(file, CONTENT);
      assert.ok(content instanceof LentBytes);
      const lending = content.lend((_, giveBack) => giveBack()).catch(() => undefined);
      for (let turn = 0; turn < turns; turn += 1) await undefined;
      content.destroy();
      // Another file that gets the number of the closed one would be closed or read in its place.
      const other = openSync(file, 'r');
      await lending;
      await nextTurn();
      assert.equal(fstatSync(other).size, BYTES.length);
      closeSync(other);
    }
  });

  it('a stored file that is missing is an error', async () => {
    await assert.rejects(openVerified(join(folder, 'none'), CONTENT), { code: 'ENOENT' });
  });
});
