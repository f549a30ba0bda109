import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { after, before, describe, it } from 'node:test';
import { CreateBucketCommand, ListMultipartUploadsCommand, S3Client } from '@aws-sdk/client-s3';
import { cachePaths } from '@cloche/layout';
import { eventually } from '@cloche/testkit/eventually';
import { describeArtifactStore } from '../../../testing/artifact-store-suite.ts';
import { StoreError } from './artifact-store.ts';
import { openStore } from './open-store.ts';
import { readS3Url, S3Store } from './s3-store.ts';

const { versitygw } = cachePaths(process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche');
const BUCKET = 'artifacts';
const MEBIBYTE = 2 ** 20;
const KEYS = { AWS_ACCESS_KEY_ID: 'cloche', AWS_SECRET_ACCESS_KEY: 'only-for-this-test' };

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  return port;
}

/**
 * Starts a real S3-compatible server on a folder. `started` receives its process before the server accepts requests.
 */
async function startS3(folder: string, started: (process: ChildProcess) => void): Promise<string> {
  mkdirSync(join(folder, 'objects'));
  const port = await freePort();
  const address = `127.0.0.1:${port}`;
  const flags = ['--access', KEYS.AWS_ACCESS_KEY_ID, '--secret', KEYS.AWS_SECRET_ACCESS_KEY, '--port', address];
  started(spawn(versitygw, [...flags, 'posix', join(folder, 'objects')], { stdio: 'ignore' }));
  const endpoint = `http://${address}`;
  const client = new S3Client({ region: 'us-east-1', endpoint, forcePathStyle: true, maxAttempts: 1 });
  const createsBucket = () =>
    client.send(new CreateBucketCommand({ Bucket: BUCKET })).then(
      () => true,
      (error) => {
        if (!/ECONNREFUSED/.test(String(error))) throw error;
        return false;
      },
    );
  await eventually(createsBucket, { within: 60_000, because: 'the store accepts connections' });
  client.destroy();
  return endpoint;
}

if (existsSync(versitygw)) {
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

    it('is put in parts, and given back whole', async () => {
      const sha256 = createHash('sha256').update(bytes).digest('hex');
      await store.put(file, { sha256, sizeBytes: bytes.length });
      const content = await buffer(await store.read(sha256, undefined, AbortSignal.timeout(10_000)));
      assert.ok(content.equals(bytes));
    });

    it('is not assembled if it does not match its digest', async () => {
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
  it('is where its URL says', () => {
    assert.deepEqual(readS3Url('s3://name/a/b/?endpoint=https://s3.example.com:9000&region=eu-1'), {
      bucket: 'name',
      prefix: 'a/b/',
      endpoint: 'https://s3.example.com:9000',
      region: 'eu-1',
    });
    assert.deepEqual(readS3Url('s3://name'), { bucket: 'name', prefix: '', endpoint: undefined, region: 'us-east-1' });
  });

  it('says so when no server answers', async () => {
    Object.assign(process.env, KEYS);
    const store = await openStore(`s3://name?endpoint=http://127.0.0.1:${await freePort()}`);
    await assert.rejects(store.has('0'.repeat(64)), StoreError);
    await store.close();
  });
});
