import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ArtifactStore } from './artifact-store.ts';
import { LocalStore } from './local-store.ts';

/** Contents that do not belong to artifacts, each kind in a folder or below a prefix of its own. */
export type OtherContents = 'archives' | 'image-layers';

/** Opens the store at a URL: `file:///folder`, or `s3://bucket/prefix?endpoint=…&region=…`. */
export async function openStore(url: string, others?: OtherContents): Promise<ArtifactStore> {
  if (url.startsWith('file:')) return new LocalStore(join(fileURLToPath(url), others ?? 'contents'));
  // Load the S3 client only when it is used.
  const { readS3Url, S3Store } = await import('./s3-store.ts');
  const location = readS3Url(url);
  return new S3Store(others ? { ...location, prefix: `${location.prefix}${others}/` } : location);
}
