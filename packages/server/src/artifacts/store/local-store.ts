import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type ArtifactStore, ContentMissingError } from './artifact-store.ts';

const DIGEST = /^[0-9a-f]{64}$/;

/**
 * Stores contents in a local folder, as `<first two digits>/<digest>`. `put` renames, so its file must be on the same
 * file system.
 */
export class LocalStore implements ArtifactStore {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  async put(file: string, { sha256 }: { sha256: string; sizeBytes: number }): Promise<void> {
    const place = this.#pathOf(sha256);
    await requireDigest(file, sha256);
    await mkdir(dirname(place), { recursive: true, mode: 0o700 });
    await flush(file);
    await rename(file, place);
    await flush(dirname(place));
  }

  async has(sha256: string): Promise<boolean> {
    return (await stat(this.#pathOf(sha256)).catch(() => undefined)) !== undefined;
  }

  async read(
    sha256: string,
    range: { start: number; end: number } | undefined,
    signal: AbortSignal,
  ): Promise<Readable> {
    // A read stream, not a file handle: Node.js ends the process when a file handle is garbage-collected while open.
    const content = createReadStream(this.#pathOf(sha256), { ...range, signal, highWaterMark: 256 * 1024 });
    try {
      await once(content, 'open');
      return content;
    } catch (error) {
      throw signal.aborted ? error : new ContentMissingError(sha256, { cause: error });
    }
  }

  async remove(sha256: string): Promise<void> {
    await rm(this.#pathOf(sha256), { force: true });
  }

  async *list(): AsyncGenerator<{ sha256: string; storedAt: number }> {
    for (const group of await readdir(this.#folder).catch(() => [])) {
      for (const sha256 of await readdir(join(this.#folder, group)).catch(() => [])) {
        if (!DIGEST.test(sha256)) continue;
        const found = await stat(this.#pathOf(sha256)).catch(() => undefined);
        if (found) yield { sha256, storedAt: found.mtimeMs };
      }
    }
  }

  async close(): Promise<void> {}

  #pathOf(sha256: string): string {
    if (!DIGEST.test(sha256)) throw new Error('a content is named by its SHA-256');
    return join(this.#folder, sha256.slice(0, 2), sha256);
  }
}

/** Reads the file back, so that a disk error is noticed while the sandbox still has the original. */
async function requireDigest(file: string, sha256: string): Promise<void> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file, { highWaterMark: 1024 * 1024 }), hash);
  if (hash.digest('hex') !== sha256) throw new Error(`what was written is not ${sha256}`);
}

async function flush(path: string): Promise<void> {
  const handle = await open(path);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
