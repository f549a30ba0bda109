import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ArtifactStore } from './artifact-store.ts';
import { LocalStore } from './local-store.ts';

/** The store that a URL names: `file:/absolute/folder`. */
export async function openStore(url: string): Promise<ArtifactStore> {
  return new LocalStore(join(fileURLToPath(url), 'contents'));
}
