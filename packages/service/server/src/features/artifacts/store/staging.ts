import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { LIMITS, type OrgId } from '@cloche/contract';
import type { DiskSpace } from '../../../platform/base/disk-space.ts';
import type { IdSource } from '../../../platform/base/id-source.ts';
import { ArrivingBytes, type ArrivingContent } from './arriving-bytes.ts';

/** Bytes received between two checks of the space; reserved at a time for a content whose size is not known. */
const STEP_BYTES = 16 * 1024 * 1024;
/** Bytes of all contents of an organization that arrive at the same time, unless a setting has more for one of them. */
const PER_ORGANIZATION_BYTES = LIMITS.workspaceArchiveTransferBytes;
/** Separates the server's id from the content's id in a file name. Neither id contains it. */
const SEPARATOR = '.';

/** A completely received content in its own file. Disposing it is safe after the store has moved the file. */
export interface Staged extends AsyncDisposable {
  readonly file: string;
  readonly sha256: string;
  readonly sizeBytes: number;
}

/** A content that has not been sent yet. */
export interface Incoming {
  readonly orgId: OrgId;
  /** Size that its sender announces, if it does. */
  readonly sizeBytes?: number | undefined;
  /** Called once, when there is room for the content. */
  open(): Readable | Promise<Readable>;
}

/** The source of a content broke off. */
export class SourceError extends Error {
  override readonly name = 'SourceError';
}

/** The content has more bytes than allowed. */
export class ContentTooLargeError extends Error {
  override readonly name = 'ContentTooLargeError';
}

export interface StagingOptions {
  readonly space?: Pick<DiskSpace, 'require'>;
  readonly serverId?: string;
  readonly largestBytes?: number;
}

/** Receives contents into temporary files and computes their digests. */
export class Staging {
  readonly #folder: string;
  readonly #ids: IdSource;
  readonly #arriving: ArrivingBytes;
  readonly #serverId: string;

  /**
   * @param options.space checked before a content is received, and again as it grows
   * @param options.serverId begins the names of this server's files, because other servers may receive into the same
   * folder
   * @param options.largestBytes size of the largest content, if it is more than that of an archive
   */
  constructor(folder: string, ids: IdSource, { space, serverId = '', largestBytes = 0 }: StagingOptions = {}) {
    this.#folder = folder;
    this.#ids = ids;
    this.#arriving = new ArrivingBytes(space, Math.max(PER_ORGANIZATION_BYTES, largestBytes));
    this.#serverId = serverId;
  }

  /**
   * Removes the files that servers which have ended left behind, and an earlier process of this server. Call it before
   * the first content is received.
   *
   * @param findLiving as in `clearOfDead`
   */
  async clear(findLiving: () => Promise<ReadonlySet<string>>): Promise<void> {
    await this.clearOfDead(findLiving);
    await this.#remove((await this.#names()).filter((name) => serverOf(name) === this.#serverId));
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

  /**
   * Receives a content. Opens it when its bytes are reserved, and leaves no file when it fails.
   *
   * @throws ContentTooLargeError, SourceError, AppError `rate_limited` or `unavailable` when there is no room, or the
   * error of `open`
   */
  async take({ orgId, sizeBytes: announced, open }: Incoming, maxBytes: number, signal?: AbortSignal): Promise<Staged> {
    if (announced !== undefined && announced > maxBytes)
      throw new ContentTooLargeError(`the content has more than ${maxBytes} bytes`);
    await mkdir(this.#folder, { recursive: true, mode: 0o700 });
    using content = await this.#arriving.reserve(orgId, announced ?? 0);
    const file = join(this.#folder, `${this.#serverId}${SEPARATOR}${this.#ids.next('content_')}`);
    const measure = new Measure(announced ?? 0, maxBytes, content);
    let sourceError: unknown;
    try {
      signal?.throwIfAborted();
      const source = await open();
      // `pipeline` destroys the source with the error of another stream, which has the error by then.
      source.once('error', (error) => {
        if (!measure.errored && !signal?.aborted) sourceError = error;
      });
      await pipeline(source, measure, createWriteStream(file, { flags: 'wx', mode: 0o600 }), { signal });
    } catch (error) {
      await rm(file, { force: true });
      const isSources = error === sourceError || codeOf(error) === 'ERR_STREAM_PREMATURE_CLOSE';
      throw isSources ? new SourceError('the source broke off', { cause: error }) : error;
    }
    return {
      file,
      sizeBytes: measure.sizeBytes,
      sha256: measure.digest(),
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

/** Passes a content through, limits and measures it, and reserves its space as it grows. */
class Measure extends Transform {
  sizeBytes = 0;
  readonly #hash = createHash('sha256');
  readonly #announcedBytes: number;
  readonly #maxBytes: number;
  readonly #content: ArrivingContent;

  constructor(announcedBytes: number, maxBytes: number, content: ArrivingContent) {
    super();
    this.#announcedBytes = announcedBytes;
    this.#maxBytes = maxBytes;
    this.#content = content;
  }

  digest(): string {
    return this.#hash.digest('hex');
  }

  override _transform(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null, data?: Buffer) => void): void {
    const before = this.sizeBytes;
    this.sizeBytes += chunk.length;
    if (this.sizeBytes > this.#maxBytes) {
      done(new ContentTooLargeError(`the content has more than ${this.#maxBytes} bytes`));
      return;
    }
    this.#hash.update(chunk);
    this.#content.wrote(before);
    const step = Math.ceil(this.sizeBytes / STEP_BYTES);
    const outgrows = this.sizeBytes > this.#announcedBytes && before <= this.#announcedBytes;
    if (step === Math.ceil(before / STEP_BYTES) && !outgrows) {
      done(null, chunk);
      return;
    }
    // One whose size was announced has its bytes already.
    const wanted = Math.min(this.sizeBytes > this.#announcedBytes ? step * STEP_BYTES : 0, this.#maxBytes);
    this.#content.grow(wanted).then(() => done(null, chunk), done);
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

/** Returns the id of the server that receives a file. */
function serverOf(name: string): string {
  return name.slice(0, Math.max(0, name.indexOf(SEPARATOR)));
}
