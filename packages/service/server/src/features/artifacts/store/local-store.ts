import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { link, mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  type ArtifactStore,
  type ContentAsides,
  ContentMissingError,
  type ContentName,
  type NewContent,
  type PreparedRemoval,
} from './artifact-store.ts';
import { flush } from './flush.ts';
import { LocalAsides } from './local-asides.ts';

const NAME = /^[0-9a-f]{64}$/;

/**
 * Stores contents in a local folder, as `<first two digits>/<name>`. `put` moves or links a file, which must be on the
 * same file system.
 */
export class LocalStore implements ArtifactStore {
  readonly asides: ContentAsides | undefined;
  readonly #asides: LocalAsides;
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
    this.#asides = new LocalAsides(folder, (name) => this.fileOf(name));
    this.asides = this.#asides;
  }

  async put(file: string, { sha256, name = sha256, keepsFile = false }: NewContent): Promise<void> {
    const place = this.fileOf(name);
    await requireDigest(file, sha256);
    await mkdir(dirname(place), { recursive: true, mode: 0o700 });
    await flush(file);
    if (keepsFile) await link(file, place).catch(unlessStored);
    else await rename(file, place);
    await flush(dirname(place));
  }

  async has(name: ContentName): Promise<boolean> {
    return (await stat(this.fileOf(name)).catch(() => undefined)) !== undefined;
  }

  async read(
    name: ContentName,
    range: { start: number; end: number } | undefined,
    signal: AbortSignal,
  ): Promise<Readable> {
    let cause: unknown;
    for await (const file of this.#placesOf(name)) {
      try {
        return await openStream(file, { ...range, signal });
      } catch (error) {
        if (signal.aborted) throw error;
        cause = error;
      }
    }
    throw new ContentMissingError(name, { cause });
  }

  async remove(name: ContentName): Promise<void> {
    await rm(this.fileOf(name), { force: true });
  }

  /** A process can pause for any time before it removes a file. */
  async prepareRemoval(name: ContentName): Promise<PreparedRemoval | undefined> {
    if (!(await this.has(name))) return undefined;
    return { arrivesWithinMs: Number.POSITIVE_INFINITY, send: () => this.remove(name) };
  }

  async *list(): AsyncGenerator<{ name: ContentName; storedAt: number }> {
    for (const group of await readdir(this.#folder).catch(() => [])) {
      for (const name of await readdir(join(this.#folder, group)).catch(() => [])) {
        if (!NAME.test(name)) continue;
        const found = await stat(this.fileOf(name)).catch(() => undefined);
        if (found) yield { name, storedAt: found.mtimeMs };
      }
    }
  }

  fileOf(name: ContentName): string {
    if (!NAME.test(name)) throw new Error('the name of a content has 64 hexadecimal digits');
    return join(this.#folder, name.slice(0, 2), name);
  }

  async signPut(): Promise<undefined> {
    return undefined;
  }

  async close(): Promise<void> {}

  /** Yields the paths that a content may have. It may be set aside and put back while they are tried. */
  async *#placesOf(name: ContentName): AsyncGenerator<string> {
    yield this.fileOf(name);
    yield* await this.#asides.filesOf(name);
    yield this.fileOf(name);
  }
}

/** A read stream, not a file handle: Node.js ends the process when a file handle is garbage-collected while open. */
async function openStream(
  file: string,
  options: { start?: number; end?: number; signal: AbortSignal },
): Promise<Readable> {
  const content = createReadStream(file, { ...options, highWaterMark: 256 * 1024 });
  // Its reader learns of an error, also of one before it reads.
  content.on('error', () => undefined);
  await once(content, 'open');
  return content;
}

/** Reads the file back, so that a disk error is noticed while the sandbox still has the original. */
async function requireDigest(file: string, sha256: string): Promise<void> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file, { highWaterMark: 1024 * 1024 }), hash);
  if (hash.digest('hex') !== sha256) throw new Error(`the written bytes do not have the digest ${sha256}`);
}

function unlessStored(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
}
