import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ArtifactStore } from './artifact-store.ts';
import { LocalStore } from './local-store.ts';

/** The store that a URL names: `file:///folder`, or `s3://bucket/prefix?endpoint=…&region=…`. */
export async function openStore(url: string): Promise<ArtifactStore> {
  if (url.startsWith('file:')) return new LocalStore(join(fileURLToPath(url), 'contents'));
  // Nobody who keeps artifacts in a folder pays for the client.
  const { readS3Url, S3Store } = await import('./s3-store.ts');
  return new S3Store(readS3Url(url));
}
