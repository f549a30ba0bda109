import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { DiskSpace } from '../../base/disk-space.ts';
import type { IdSource } from '../../base/id-source.ts';

/** Bytes received between two checks of the free disk space. */
const SPACE_EVERY_BYTES = 64 * 1024 * 1024;

/** A completely received content in its own file. Disposing it is safe after the store has moved the file. */
export interface Staged extends AsyncDisposable {
  readonly file: string;
  readonly sha256: string;
  readonly sizeBytes: number;
}

/** The content has more bytes than allowed. */
export class ContentTooLargeError extends Error {
  override readonly name = 'ContentTooLargeError';
}

/** Receives contents into temporary files and computes their digests. */
export class Staging {
  readonly #folder: string;
  readonly #ids: IdSource;
  readonly #space: Pick<DiskSpace, 'require'> | undefined;

  /** @param space checked before a content is received, and again as it grows. */
  constructor(folder: string, ids: IdSource, space?: Pick<DiskSpace, 'require'>) {
    this.#folder = folder;
    this.#ids = ids;
    this.#space = space;
  }

  /**
   * Removes files left by a server that died. Call it before the first content is received.
   *
   * @param unchangedMs time since the last byte of a file, if other servers receive into the same folder
   */
  async clear(unchangedMs = 0): Promise<void> {
    for (const name of await readdir(this.#folder).catch(() => [])) {
      const file = join(this.#folder, name);
      const changedAt = (await stat(file).catch(() => undefined))?.mtimeMs ?? 0;
      // The clock of the host, as that of the file is.
      if (Date.now() - changedAt >= unchangedMs) await rm(file, { force: true });
    }
  }

  /** Receives a content. Leaves no file when it fails. @throws ContentTooLargeError, or the error of the source */
  async take(source: Readable, maxBytes: number, signal?: AbortSignal): Promise<Staged> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const file = join(this.#folder, this.#ids.next('content_'));
    const space = this.#space;
    let askedAt = 0;
    const hash = createHash('sha256');
    let sizeBytes = 0;
    const measure = new Transform({
      transform(chunk: Buffer, _, done) {
        sizeBytes += chunk.length;
        if (sizeBytes > maxBytes) return done(new ContentTooLargeError(`more than ${maxBytes} bytes`));
        hash.update(chunk);
        if (!space || sizeBytes - askedAt < SPACE_EVERY_BYTES) return done(null, chunk);
        askedAt = sizeBytes;
        space.require().then(() => done(null, chunk), done);
      },
    });
    try {
      await space?.require();
      await pipeline(source, measure, createWriteStream(file, { flags: 'wx', mode: 0o600 }), { signal });
    } catch (error) {
      await rm(file, { force: true });
      throw error;
    }
    return {
      file,
      sizeBytes,
      sha256: hash.digest('hex'),
      [Symbol.asyncDispose]: () => rm(file, { force: true }),
    };
  }
}
