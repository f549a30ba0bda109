import assert from 'node:assert/strict';
import type { ChildProcess } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { ListMultipartUploadsCommand, S3Client } from '@aws-sdk/client-s3';
import { findFreePort } from '@cloche/node-support';
import { describeArtifactStore } from '../../../../testing/artifact-store-suite.ts';
import { BUCKET, hasS3, KEYS, startS3, versitygw } from '../../../../testing/s3-server.ts';
import { StoreError } from './artifact-store.ts';
import { openStore } from './open-store.ts';
import { readS3Url, S3Store } from './s3-store.ts';

const MEBIBYTE = 2 ** 20;

if (hasS3) {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-s3-'));
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
  describeArtifactStore('in a bucket', async () => {
    const endpoint = await startS3(folder, (process) => {
      server = process;
    });
    url = `s3://${BUCKET}/deep/prefix?endpoint=${encodeURIComponent(endpoint)}`;
    return openStore(url);
  });

  describe('a content that is too large for one request', () => {
    const bytes = randomBytes(12 * MEBIBYTE);
    const file = join(folder, 'large');
    let store: S3Store;
    before(() => {
      writeFileSync(file, bytes);
      store = new S3Store(readS3Url(url), { oneRequestBytes: 6 * MEBIBYTE, partBytes: 5 * MEBIBYTE });
    });
    after(() => store.close());

    it('a content that is too large for one request is put in parts, and given back whole', async () => {
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      await store.put(file, { sha256, sizeBytes: bytes.length });
      const content = await buffer(await store.read(sha256, undefined, AbortSignal.timeout(60_000)));
      assert.ok(content.equals(bytes));
    });

    it('a content that is too large for one request is not assembled if it does not match its digest', async () => {
      const sha256 = createHash('sha256').update('something else').digest('hex');
      await assert.rejects(store.put(file, { sha256, sizeBytes: bytes.length }), StoreError);
      assert.equal(await store.has(sha256), false);
      const { endpoint = '' } = readS3Url(url);
      const client = new S3Client({ region: 'us-east-1', endpoint, forcePathStyle: true });
      const { Uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket: BUCKET }));
      client.destroy();
      assert.deepEqual(Uploads, []);
    });
  });
} else it.skip(`an artifact store in a bucket: it takes ${versitygw}, which takes Go`);

describe('an artifact store in a bucket', () => {
  it('an artifact store in a bucket is where its URL says', () => {
    assert.deepEqual(readS3Url('s3://name/a/b/?endpoint=https://s3.example.com:9000&region=eu-1'), {
      bucket: 'name',
      prefix: 'a/b/',
      endpoint: 'https://s3.example.com:9000',
      region: 'eu-1',
    });
    assert.deepEqual(readS3Url('s3://name'), { bucket: 'name', prefix: '', endpoint: undefined, region: 'us-east-1' });
  });

  it('an artifact store in a bucket says so when no server answers', async () => {
    Object.assign(process.env, KEYS);
    const store = await openStore(`s3://name?endpoint=http://127.0.0.1:${await findFreePort()}`);
    await assert.rejects(store.has('0'.repeat(64)), StoreError);
    await store.close();
  });

  it('an artifact store in a bucket ends its wait with that of its caller when the bucket does not answer', {
    timeout: 10_000,
  }, async () => {
    Object.assign(process.env, KEYS);
    await using server = createServer(() => undefined);
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const store = await openStore(`s3://name?endpoint=http://127.0.0.1:${port}`);
    const caller = new AbortController();
    const looking = store.has('0'.repeat(64), caller.signal);
    await once(server, 'request');
    caller.abort();
    await assert.rejects(looking, StoreError);
    await store.close();
    server.closeAllConnections();
  });

  it('an artifact store in a bucket signs a removal by the clock of the bucket, so that it is too late within a minute', async () => {
    Object.assign(process.env, KEYS);
    const bucketTime = new Date('2001-02-03T04:05:06Z');
    const asked: URL[] = [];
    let answer: number | undefined = 204;
    await using server = createServer((request, response) => {
      if (request.method === 'HEAD') return response.writeHead(200, { date: bucketTime.toUTCString() }).end();
      asked.push(new URL(request.url ?? '', 'http://bucket'));
      return answer === undefined ? request.socket.destroy() : response.writeHead(answer).end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const store = await openStore(`s3://name?endpoint=http://127.0.0.1:${port}`);
    for (const [code, failed] of [
      [204, undefined],
      [404, undefined],
      [403, 'StoreError'],
      [503, 'NoAnswerError'],
      [undefined, 'NoAnswerError'],
    ] as const) {
      answer = code;
      const prepared = (await store.prepareRemoval('0'.repeat(64))) ?? assert.fail();
      assert.ok(prepared.arrivesWithinMs < 60_000);
      const sent = prepared.send().then(
        () => undefined,
        (error: Error) => error.name,
      );
      assert.equal(await sent, failed);
      const [{ searchParams } = assert.fail(), ...more] = asked.splice(0);
      assert.equal(more.length, 0);
      assert.equal(searchParams.get('X-Amz-Date'), '20010203T040506Z');
      assert.ok(Number(searchParams.get('X-Amz-Expires')) * 1000 < prepared.arrivesWithinMs);
    }
    await store.close();
  });

  it('an artifact store in a bucket sends a removal once, and says whether it may still be carried out', async () => {
    Object.assign(process.env, KEYS);
    let status = 0;
    let requests = 0;
    await using server = createServer((request, response) => {
      requests += 1;
      if (status === 0) request.socket.destroy();
      else response.writeHead(status).end();
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const store = await openStore(`s3://name?endpoint=http://127.0.0.1:${port}`);
    const remove = async () => {
      requests = 0;
      const failed = await store.remove('0'.repeat(64)).then(
        () => undefined,
        (error: Error) => error.name,
      );
      return { requests, failed };
    };
    assert.deepEqual(await remove(), { requests: 1, failed: 'NoAnswerError' });
    const answers = { 204: undefined, 404: undefined, 403: 'StoreError', 503: 'NoAnswerError' };
    for (const [code, failed] of Object.entries(answers)) {
      status = Number(code);
      assert.deepEqual(await remove(), { requests: 1, failed });
    }
    await store.close();
  });
});
