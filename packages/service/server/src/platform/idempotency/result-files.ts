import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdir, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';
import { LIMITS } from '@cloche/contract';
import type { Clock } from '../base/clock.ts';
import type { IdSource } from '../base/id-source.ts';
import { PART_BYTES, type ReplayParts } from './replay-parts.ts';
import type { ResultFile } from './stored-response.ts';

/** Files of the same hour share a folder, so that they are removed together. */
const FOLDER_MS = 3_600_000;
/** The fastest level: large output of code compresses well at any level. */
const ZSTD_LEVEL = 1;
/** A window of 128 KiB takes 0.5 MB of memory for each file that is written; the level's own takes 1.8 MB. */
const ZSTD_WINDOW_LOG = 17;
const DISK_BLOCK_BYTES = 4096;

/**
 * Stores results that are too large for the journal and the database in compressed files, one each. Threads do the
 * compression, writing and reading. A file is written before the record that names it, so a file without a record is a
 * result that was never sent. It is removed together with the other files of its hour.
 *
 * Where servers share a database, it has a copy of each file in parts: a server on another host reads these.
 */
export class ResultFiles {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #ids: IdSource;
  readonly #parts: ReplayParts | undefined;

  /**
   * @param folder created on first use; servers of one host can share it
   * @param parts undefined if the database has one server
   */
  constructor(folder: string, clock: Clock, ids: IdSource, parts?: ReplayParts) {
    this.#folder = folder;
    this.#clock = clock;
    this.#ids = ids;
    this.#parts = parts;
  }

  /** Writes `pieces` and resolves when the disk, and the database if it has a copy, have all of them. */
  async write(pieces: Iterable<string>): Promise<ResultFile> {
    const file = await this.#writeFile(pieces, { flush: true });
    if (this.#parts) {
      const content = createReadStream(join(this.#folder, file.name), { highWaterMark: PART_BYTES });
      // Its reader learns of an error, also of one before it reads.
      content.on('error', () => undefined);
      await this.#parts.write(file.name, Number(dirname(file.name)), content);
    }
    return file;
  }

  /** Leaves nothing behind when it fails. */
  async #writeFile(
    pieces: Iterable<string> | AsyncIterable<string>,
    { flush }: { flush: boolean },
  ): Promise<ResultFile> {
    const name = `${Math.floor(this.#clock.now() / FOLDER_MS)}/${this.#ids.next('res_')}.zst`;
    const path = join(this.#folder, name);
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    let bytes = 0;
    async function* encoded() {
      for await (const piece of pieces) {
        const buffer = Buffer.from(piece);
        bytes += buffer.length;
        yield buffer;
      }
    }
    try {
      const params = {
        [constants.ZSTD_c_compressionLevel]: ZSTD_LEVEL,
        [constants.ZSTD_c_windowLog]: ZSTD_WINDOW_LOG,
      };
      const source = Readable.from(encoded(), { objectMode: false });
      // As with the database, the bytes reach the disk before a record refers to them.
      await pipeline(
        source,
        createZstdCompress({ params }),
        createWriteStream(path, { flags: 'wx', mode: 0o600, flush }),
      );
      const { size } = await stat(path);
      return { name, bytes, diskBytes: Math.ceil(size / DISK_BLOCK_BYTES) * DISK_BLOCK_BYTES };
    } catch (error) {
      await rm(path, { force: true });
      throw error;
    }
  }

  /**
   * Writes the JSON to a temporary file and returns a stream that reads it. The file is removed when the stream ends or
   * is closed.
   */
  async spool(pieces: Iterable<string> | AsyncIterable<string>): Promise<{ json: Readable; bytes: number }> {
    const file = await this.#writeFile(pieces, { flush: false });
    const json = Readable.from(this.read(file), { objectMode: false });
    // A file that cannot be removed now is removed with the others of its hour.
    json.once('close', () => rm(join(this.#folder, file.name), { force: true }).catch(() => undefined));
    return { json, bytes: file.bytes };
  }

  /**
   * Returns the JSON of `file`. The file is opened by the first `next()`, so that a caller that fails or whose client
   * leaves before it reads has nothing to close.
   */
  async *read({ name }: ResultFile): AsyncGenerator<Buffer, void> {
    const json = createZstdDecompress();
    // The reader of `json` receives the errors.
    pipeline(await this.#open(name), json).catch(() => undefined);
    yield* json;
  }

  async #open(name: string): Promise<AsyncIterable<Buffer>> {
    try {
      const content = createReadStream(join(this.#folder, name));
      content.on('error', () => undefined);
      await once(content, 'open');
      return content;
    } catch (error) {
      const isElsewhere = this.#parts !== undefined && (error as NodeJS.ErrnoException).code === 'ENOENT';
      const parts = isElsewhere ? await this.#parts.open(name) : undefined;
      if (parts) return parts;
      throw error;
    }
  }

  /** Removes files whose records have expired. A record is older than its file. */
  async removeExpired(now: number): Promise<void> {
    const oldest = Math.floor((now - LIMITS.idempotencyRetentionMs) / FOLDER_MS);
    const folders = await readdir(this.#folder).catch(() => []);
    const expired = folders.filter((folder) => Number(folder) < oldest);
    for (const folder of expired) await rm(join(this.#folder, folder), { recursive: true, force: true });
    await this.#parts?.removeExpired(oldest);
  }
}
