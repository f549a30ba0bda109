import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { LIMITS, type OrgId } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { DiskSpace, FRESH_MS } from '../../../platform/base/disk-space.ts';
import { randomIds } from '../../../platform/base/id-source.ts';
import { ContentTooLargeError, SourceError, Staging } from './staging.ts';

const [ORG, OTHER] = ['org_1' as OrgId, 'org_2' as OrgId];
const MEBIBYTE = 1024 * 1024;
const MOST = LIMITS.workspaceArchiveTransferBytes;
const RESERVE = 100 * MEBIBYTE;

let folder: string;
let freeBytes: number;
let staging: Staging;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'cloche-staging-'));
  freeBytes = Number.MAX_SAFE_INTEGER;
  let now = 0;
  const clock = { now: () => (now += FRESH_MS) };
  const read = async () => ({ freeBytes, totalBytes: Number.MAX_SAFE_INTEGER });
  const space = new DiskSpace(folder, { clock, log: { error: () => undefined }, read, reserveBytes: RESERVE });
  staging = new Staging(folder, randomIds, { space });
});
afterEach(() => rmSync(folder, { recursive: true }));

const bytes = (size: number) => Readable.from([Buffer.alloc(size)]);
/** A source that is opened and sends nothing more until it is told to. */
function held() {
  const opened = Promise.withResolvers<void>();
  const source = new Readable({ read: () => undefined });
  const open = () => {
    opened.resolve();
    return source;
  };
  return { open, opened: opened.promise, end: () => source.push(null), source };
}
const never = () => assert.fail('it was opened');

describe('a content that is received', () => {
  it('a content that is received is not opened if its announced size is more than allowed', async () => {
    await assert.rejects(staging.take({ orgId: ORG, sizeBytes: 11, open: never }, 10), ContentTooLargeError);
  });

  it('a content that is received is not opened if it would take the disk below its reserve and a half', async () => {
    freeBytes = 2 * RESERVE;
    const fits = { orgId: ORG, sizeBytes: RESERVE / 2, open: () => bytes(1) };
    await (await staging.take(fits, MOST))[Symbol.asyncDispose]();
    const tooMuch = { orgId: ORG, sizeBytes: RESERVE / 2 + 1, open: never };
    await assert.rejects(staging.take(tooMuch, MOST), { code: 'unavailable' });
  });

  it('a content that is received has its place on the disk, also among those that have not been written', async () => {
    freeBytes = 2 * RESERVE;
    const first = held();
    const taking = staging.take({ orgId: ORG, sizeBytes: RESERVE / 4, open: first.open }, MOST);
    await first.opened;
    const other = { orgId: OTHER, sizeBytes: RESERVE / 2, open: never };
    await assert.rejects(staging.take(other, MOST), { code: 'unavailable' });
    first.end();
    await taking;
    await staging.take({ ...other, open: () => bytes(1) }, MOST);
  });

  it('a content that is received waits for the others of its organization, and not for those of another', async () => {
    const first = held();
    const taking = staging.take({ orgId: ORG, sizeBytes: MOST - 1, open: first.open }, MOST);
    await first.opened;
    const more = { orgId: ORG, sizeBytes: 2, open: never };
    await assert.rejects(staging.take(more, MOST), { code: 'rate_limited', retryAfterSeconds: 5 });
    await staging.take({ orgId: OTHER, sizeBytes: MOST, open: () => bytes(1) }, MOST);
    first.source.destroy(new Error('the sender is gone'));
    await assert.rejects(taking, SourceError);
    await staging.take({ ...more, open: () => bytes(2) }, MOST);
  });

  it('reserves its bytes while it grows, if its size is not announced or not true', async () => {
    for (const sizeBytes of [undefined, 10]) {
      freeBytes = Number.MAX_SAFE_INTEGER;
      const source = held();
      const taking = staging.take({ orgId: ORG, sizeBytes, open: source.open }, MOST);
      await source.opened;
      freeBytes = 2 * RESERVE;
      source.source.push(Buffer.alloc(RESERVE / 2 + 1));
      await assert.rejects(taking, { code: 'unavailable' });
      assert.ok(source.source.destroyed);
    }
  });

  it('a content that is received leaves no file when it breaks off, and ends its source when it is given up', async () => {
    const source = held();
    const controller = new AbortController();
    const taking = staging.take({ orgId: ORG, open: source.open }, MOST, controller.signal);
    await source.opened;
    await eventually(() => readdirSync(folder).length === 1, { because: 'the content arrives' });
    controller.abort();
    await assert.rejects(taking, { name: 'AbortError' });
    assert.deepEqual([source.source.destroyed, readdirSync(folder)], [true, []]);
    await assert.rejects(staging.take({ orgId: ORG, open: never }, MOST, controller.signal), { name: 'AbortError' });
  });
});
