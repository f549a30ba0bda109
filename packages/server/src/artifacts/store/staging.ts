import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { DiskSpace } from '../../base/disk-space.ts';
import type { IdSource } from '../../base/id-source.ts';

/** Bytes received between two checks of the free disk space. */
const SPACE_EVERY_BYTES = 64 * 1024 * 1024;
/** Separates the server's id from the content's id in a file name. Neither id contains it. */
const SEPARATOR = '.';

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
  readonly #serverId: string;

  /**
   * @param space checked before a content is received, and again as it grows
   * @param serverId begins the names of this server's files, because other servers may receive into the same folder
   */
  constructor(folder: string, ids: IdSource, space?: Pick<DiskSpace, 'require'>, serverId = '') {
    this.#folder = folder;
    this.#ids = ids;
    this.#space = space;
    this.#serverId = serverId;
  }

  /** Removes all files, which a dead process left behind. Call it before the first content is received. */
  async clear(): Promise<void> {
    await this.#remove(await this.#names());
  }

  /**
   * Removes the files of servers that have ended.
   *
   * @param findLiving returns the ids of the other running servers; called only if other servers have files
   */
  async clearOfDead(findLiving: () => Promise<ReadonlySet<string>>): Promise<void> {
    // The names are read before the servers, because a server is running before it creates a file.
    const others = (await this.#names()).filter((name) => serverOf(name) !== this.#serverId);
    if (others.length === 0) return;
    const living = await findLiving();
    await this.#remove(others.filter((name) => !living.has(serverOf(name))));
  }

  /** Receives a content. Leaves no file when it fails. @throws ContentTooLargeError, or the error of the source */
  async take(source: Readable, maxBytes: number, signal?: AbortSignal): Promise<Staged> {
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    const file = join(this.#folder, `${this.#serverId}${SEPARATOR}${this.#ids.next('content_')}`);
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

  #names(): Promise<string[]> {
    return readdir(this.#folder).catch(() => []);
  }

  async #remove(names: readonly string[]): Promise<void> {
    for (const name of names) await rm(join(this.#folder, name), { force: true });
  }
}

/** Returns the id of the server that receives a file. */
function serverOf(name: string): string {
  return name.slice(0, Math.max(0, name.indexOf(SEPARATOR)));
}
