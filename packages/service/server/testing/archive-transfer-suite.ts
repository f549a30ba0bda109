import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { LIMITS } from '@cloche/contract';
import { ArchiveUploads, sendTo } from './archive-uploads.ts';
import { digestOf, EMPTY_TAR, fileAt, tarOf } from './archives.ts';
import { openTenants, type Tenants } from './tenants.ts';

export const GOOD = tarOf(fileAt('a'), fileAt('b'));
const BAD = tarOf(fileAt('fine'), fileAt('../escaped'));

export interface Transfers {
  readonly tenants: Tenants;
  readonly uploads: ArchiveUploads;
  /** Names of the archives that are stored. */
  stored(): Promise<string[]>;
}

/** Transfers pass this with every store. `stored` lists the contents of the store. */
export function describeTransfers(
  name: string,
  open: () => Promise<{ settings: Record<string, string>; stored?: () => Promise<string[]> }>,
  more: (transfers: () => Transfers) => void = () => undefined,
): void {
  describe(`the transfer of an archive ${name}`, () => {
    let transfers: Transfers;
    before(async () => {
      const { settings, stored } = await open();
      const tenants = await openTenants(settings);
      const uploads = new ArchiveUploads(tenants);
      transfers = { tenants, uploads, stored: stored ?? (async () => uploads.stored().archives) };
    });
    after(() => transfers?.tenants.close());

    const transferOf = async (id: string, bytes: Buffer, changes: object = {}) => {
      const { status, body } = await transfers.uploads.createTransfer(id, bytes, changes);
      assert.equal(status, 201, JSON.stringify(body));
      return body.transfer;
    };
    const refusedFinalize = async (id: string) => {
      const { status, body } = await transfers.uploads.finalize(id);
      return [status, body.error.code];
    };

    it(`the transfer of an archive ${name} takes the archive without a key, and finalizing makes it that of its run`, async () => {
      const { uploads } = transfers;
      const id = await uploads.createRun();
      const transfer = await transferOf(id, GOOD);
      assert.equal(transfer.method, 'PUT');
      const left = Date.parse(transfer.expiresAt) - Date.now();
      assert.ok(left > LIMITS.archiveTransferMs - 60_000 && left <= LIMITS.archiveTransferMs);
      assert.ok((await sendTo(transfer, GOOD)).ok);
      assert.equal((await uploads.run(id)).status, 'awaiting_archive');
      const { status, body } = await uploads.finalize(id);
      assert.equal(status, 200, JSON.stringify(body));
      assert.equal(body.workspaceRun.status, 'archived');
      assert.deepEqual(body.workspaceRun.archive, { format: 'tar', ...digestOf(GOOD), entries: 2 });
    });

    it(`the transfer of an archive ${name} replaces an earlier archive, and is replaced, without leaving any content`, async () => {
      const { uploads } = transfers;
      const id = await uploads.createRun();
      const before = (await transfers.stored()).length;
      await uploads.upload(id, EMPTY_TAR);
      await sendTo(await transferOf(id, GOOD), GOOD);
      assert.equal((await uploads.finalize(id)).status, 200);
      assert.equal((await transfers.stored()).length, before + 1);
      await uploads.upload(id, EMPTY_TAR);
      assert.equal((await transfers.stored()).length, before + 1);
    });

    it(`the transfer of an archive ${name} takes no other bytes, and finalizing says that the archive is missing`, async () => {
      const { uploads } = transfers;
      const id = await uploads.createRun();
      await uploads.upload(id, EMPTY_TAR);
      const before = await transfers.stored();
      const transfer = await transferOf(id, GOOD);
      const other = Buffer.from(GOOD);
      other.write('C', 512);
      assert.equal((await sendTo(transfer, other)).status, 400);
      assert.ok(!(await sendTo({ ...transfer, headers: {} }, GOOD.subarray(0, 512))).ok);
      assert.deepEqual(await refusedFinalize(id), [409, 'conflict']);
      assert.deepEqual(await transfers.stored(), before);
      assert.equal((await uploads.run(id)).archive.entries, 0);
    });

    it(`the transfer of an archive ${name} leaves nothing of a refused archive, and the run keeps what it had`, async () => {
      const { uploads } = transfers;
      const id = await uploads.createRun();
      await uploads.upload(id, EMPTY_TAR);
      const before = await transfers.stored();
      await sendTo(await transferOf(id, BAD), BAD);
      const { status, body } = await uploads.finalize(id);
      assert.deepEqual([status, body.error.code], [400, 'invalid_request']);
      assert.match(body.error.message, /^archive cannot be unpacked: "\.\.\/escaped" leads out/);
      assert.deepEqual(await transfers.stored(), before);
      assert.equal((await uploads.run(id)).archive.entries, 0);
      assert.deepEqual(await refusedFinalize(id), [409, 'conflict']);
    });

    it(`the transfer of an archive ${name} is ended by a further one`, async () => {
      const { uploads } = transfers;
      const id = await uploads.createRun();
      const before = (await transfers.stored()).length;
      const first = await transferOf(id, GOOD);
      await sendTo(first, GOOD);
      const second = await transferOf(id, EMPTY_TAR);
      assert.equal((await transfers.stored()).length, before);
      assert.deepEqual(await refusedFinalize(id), [409, 'conflict']);
      await sendTo(second, EMPTY_TAR);
      assert.equal((await uploads.finalize(id)).body.workspaceRun.archive.entries, 0);
    });

    it(`the transfer of an archive ${name} has a size, a digest and a format`, async () => {
      const { uploads } = transfers;
      const id = await uploads.createRun();
      for (const [field, value] of Object.entries({
        sizeBytes: LIMITS.workspaceArchiveTransferBytes + 1,
        sha256: 'A'.repeat(64),
        format: 'rar',
      })) {
        const { status, body } = await uploads.createTransfer(id, GOOD, { [field]: value });
        assert.deepEqual([status, body.error.details.issues[0].path], [400, `body.${field}`]);
      }
    });

    more(() => transfers);
  });
}
