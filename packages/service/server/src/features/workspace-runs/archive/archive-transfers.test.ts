import assert from 'node:assert/strict';
import { it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { describeTransfers, GOOD } from '../../../../testing/archive-transfer-suite.ts';
import { sendTo } from '../../../../testing/archive-uploads.ts';

describeTransfers(
  'to the service',
  async () => ({ settings: {} }),
  (transfers) => {
    it('an archive transfer has a URL for one run and one time, which cannot be changed', async () => {
      const { uploads } = transfers();
      const [id, otherId] = [await uploads.createRun(), await uploads.createRun()];
      const { transfer } = (await uploads.createTransfer(id, GOOD)).body;
      const { transfer: other } = (await uploads.createTransfer(otherId, GOOD)).body;
      const url = new URL(transfer.url);
      const changed = [
        url.href.replace(/expires=\d/, 'expires=9'),
        url.href.replace(url.pathname, new URL(other.url).pathname),
        url.href.replace(/signature=./, 'signature=!'),
        `${url.origin}${url.pathname}`,
      ];
      for (const each of changed) {
        const answer = await sendTo({ ...transfer, url: each }, GOOD);
        assert.equal(answer.status, 403, each);
      }
      assert.equal((await fetch(transfer.url)).status, 405);
      assert.equal((await sendTo(transfer, GOOD)).status, 204);
      assert.equal((await uploads.finalize(id)).status, 200);
      const again = await sendTo(transfer, GOOD);
      assert.equal(again.status, 409, await again.text());
    });

    it('an archive transfer is received once at a time: a later upload ends the earlier one', async () => {
      const { uploads } = transfers();
      const id = await uploads.createRun();
      const { transfer } = (await uploads.createTransfer(id, GOOD)).body;
      const ended = Promise.withResolvers<void>();
      const half = (async function* () {
        yield GOOD.subarray(0, 600);
        await ended.promise;
      })();
      const first = fetch(transfer.url, { method: 'PUT', body: half, duplex: 'half' } as RequestInit);
      await eventually(() => uploads.stored().arriving.length === 1, { because: 'the half arrives' });
      assert.equal((await sendTo(transfer, GOOD)).status, 204);
      const { status, ...refused } = await first;
      assert.equal(status, 409, JSON.stringify(refused));
      ended.resolve();
      assert.equal(uploads.stored().arriving.length, 0);
      assert.equal((await uploads.finalize(id)).status, 200);
    });

    it('an archive transfer that breaks off leaves nothing, and can be sent again', async () => {
      const { uploads } = transfers();
      const id = await uploads.createRun();
      const { transfer } = (await uploads.createTransfer(id, GOOD)).body;
      const controller = new AbortController();
      const half = (async function* () {
        yield GOOD.subarray(0, 600);
        await eventually(() => uploads.stored().arriving.length === 1, { because: 'the half arrives' });
        controller.abort();
      })();
      const broken = { method: 'PUT', body: half, duplex: 'half', signal: controller.signal } as RequestInit;
      await assert.rejects(fetch(transfer.url, broken));
      await eventually(() => uploads.stored().arriving.length === 0, { because: 'the half is removed' });
      assert.equal((await sendTo(transfer, GOOD)).status, 204);
      assert.equal((await uploads.finalize(id)).status, 200);
    });
  },
);
