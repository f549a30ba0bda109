import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3';
import { cachePaths } from '@cloche/layout';
import { findFreePort } from '@cloche/node-support';
import { eventually } from '@cloche/testkit/eventually';

export const { versitygw } = cachePaths(process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche');
export const hasS3 = existsSync(versitygw);
export const BUCKET = 'artifacts';
export const KEYS = { AWS_ACCESS_KEY_ID: 'cloche', AWS_SECRET_ACCESS_KEY: 'only-for-this-test' };

/**
 * Starts a real S3-compatible server on a folder. `started` receives its process before the server accepts requests.
 */
export async function startS3(folder: string, started: (process: ChildProcess) => void): Promise<string> {
  mkdirSync(join(folder, 'objects'));
  const port = await findFreePort();
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
