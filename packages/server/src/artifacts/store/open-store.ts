import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ArtifactStore } from './artifact-store.ts';
import { LocalStore } from './local-store.ts';

/** Opens the store at a URL: `file:///folder`, or `s3://bucket/prefix?endpoint=…&region=…`. */
export async function openStore(url: string): Promise<ArtifactStore> {
  if (url.startsWith('file:')) return new LocalStore(join(fileURLToPath(url), 'contents'));
  // Load the S3 client only when it is used.
  const { readS3Url, S3Store } = await import('./s3-store.ts');
  return new S3Store(readS3Url(url));
}
