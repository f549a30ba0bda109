/** Transfers of archives straight to a real bucket. */
import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, it } from 'node:test';
import { describeTransfers, GOOD } from '../../../../testing/archive-transfer-suite.ts';
import { sendTo } from '../../../../testing/archive-uploads.ts';
import { digestOf, fileAt, tarOf } from '../../../../testing/archives.ts';
import { BUCKET, hasS3, KEYS, startS3, versitygw } from '../../../../testing/s3-server.ts';
import { openStore } from '../../artifacts/store/open-store.ts';

if (hasS3) {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-transfers-'));
  let server: ChildProcess | undefined;
  after(async () => {
    if (server && server.exitCode === null) {
      const ended = once(server, 'exit');
      server.kill();
      await ended;
    }
    rmSync(folder, { recursive: true, force: true });
  });
  Object.assign(process.env, KEYS);
  let url = '';
  const listed = async (which?: 'archives') => {
    const store = await openStore(url, which);
    const names = (await Array.fromAsync(store.list())).map(({ name }) => name);
    await store.close();
    return names;
  };
  describeTransfers(
    'to a bucket',
    async () => {
      const endpoint = await startS3(folder, (process) => {
        server = process;
      });
      url = `s3://${BUCKET}/deep/prefix?endpoint=${encodeURIComponent(endpoint)}`;
      return { settings: { CLOCHE_ARTIFACTS_URL: url }, stored: () => listed('archives') };
    },
    (transfers) => {
      it('an archive transfer goes to the bucket itself, where the archive is not an artifact', async () => {
        const { uploads } = transfers();
        const id = await uploads.createRun();
        const { transfer } = (await uploads.createTransfer(id, GOOD)).body;
        assert.match(transfer.url, /^http:\/\/127\.0\.0\.1:\d+\/artifacts\/deep\/prefix\/archives\/[0-9a-f]{64}\?/);
        assert.ok((await sendTo(transfer, GOOD)).ok);
        assert.deepEqual(await listed(), []);
        assert.deepEqual(uploads.stored(), { archives: [], arriving: [] });
        assert.equal((await uploads.finalize(id)).status, 200);
        assert.deepEqual(uploads.stored(), { archives: [], arriving: [] });
      });

      it('an archive transfer is verified again, because a bucket accepts any bytes', async () => {
        const { uploads } = transfers();
        const id = await uploads.createRun();
        const before = await listed('archives');
        const other = tarOf(fileAt('other'));
        const { transfer } = (await uploads.createTransfer(id, GOOD)).body;
        await sendTo(transfer, GOOD);
        const [name = ''] = (await listed('archives')).filter((each) => !before.includes(each));
        const store = await openStore(url, 'archives');
        const signed = await store.signPut({ name, ...digestOf(other) }, 60_000);
        assert.ok(signed && (await sendTo(signed, other)).ok);
        await store.close();
        const { status, body } = await uploads.finalize(id);
        assert.deepEqual([status, body.error.code], [409, 'conflict']);
        assert.match(body.error.message, /another size or SHA-256/);
      });
    },
  );
} else it.skip(`the transfer of an archive to a bucket: it takes ${versitygw}, which takes Go`);
