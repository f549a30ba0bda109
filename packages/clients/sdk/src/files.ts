import type { ArchiveFormat, FileEntry, FileEvent, FileUser, SandboxId } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { isClocheError } from './cloche-error.ts';
import { type PagedList, type PageOptions, pagedList } from './paged-list.ts';
import type { CallOptions, UploadBytes } from './request.ts';
import { type PauseCallback, untilResumed } from './until-resumed.ts';

export interface FileOptions extends CallOptions {
  /**
   * User whose rights apply: the user that code runs as, or `root` of the sandbox, which is not root of the host. An
   * operation beyond these rights fails with `permission_denied`. Default: `user`.
   */
  user?: FileUser | undefined;
}

export interface ReadFileOptions extends FileOptions {
  /** Bytes from `start` up to and not including `end`. Default of `end`: the end of the file. */
  range?: { start: number; end?: number | undefined } | undefined;
  /** ETag that the file must have; otherwise the call fails with `precondition_failed`. */
  ifMatch?: string | undefined;
}

export interface WriteFileOptions extends FileOptions {
  /** Permissions, such as 0o755. Default: those of the existing file, or 0o644. */
  mode?: number | undefined;
  /** ETag that the existing file must have; otherwise the call fails with `precondition_failed`. */
  ifMatch?: string | undefined;
  /** Whether to fail with `precondition_failed` if the file exists. */
  createOnly?: boolean | undefined;
}

export interface TransferOptions extends FileOptions {
  /** Whether to replace an existing file or directory at the target. Without it the call fails with `conflict`. */
  overwrite?: boolean | undefined;
}

/** A file that is being read. */
export interface FileStream {
  readonly body: ReadableStream<Uint8Array>;
  /** Bytes of `body`, also if it is a range; undefined if the size is not known in advance. */
  readonly sizeBytes: number | undefined;
  readonly etag: string | undefined;
}

export interface WatchOptions extends Omit<FileOptions, 'idempotencyKey'>, PauseCallback {
  /** Also watches directories below. Default: false. */
  recursive?: boolean | undefined;
  onOpen?: (() => void) | undefined;
}

/**
 * The files of a sandbox. Paths are absolute, relative to `/workspace`, or `file:///` URIs, which can name files of any
 * bytes.
 */
export class Files {
  readonly #client: ApiClient;
  readonly #params: { sandboxId: SandboxId };

  constructor(client: ApiClient, sandboxId: SandboxId) {
    this.#client = client;
    this.#params = { sandboxId };
  }

  /** Returns all bytes of a file. */
  async read(path: string, options: ReadFileOptions = {}): Promise<Uint8Array> {
    return new Uint8Array(await (await this.#open(path, options)).arrayBuffer());
  }

  async readText(path: string, options: ReadFileOptions = {}): Promise<string> {
    return (await this.#open(path, options)).text();
  }

  /** Returns the bytes of a file as a stream, which keeps only the bytes in memory that have not been read yet. */
  async stream(path: string, options: ReadFileOptions = {}): Promise<FileStream> {
    return streamOf(await this.#open(path, options));
  }

  /** Creates or replaces a file once all bytes have arrived. Creates missing directories. A stream is not retried. */
  async write(path: string, bytes: UploadBytes, options: WriteFileOptions = {}): Promise<FileEntry> {
    const { mode, ifMatch, createOnly, user, ...rest } = options;
    const query = { path, ...as(user), ...(mode === undefined ? {} : { mode: mode.toString(8).padStart(3, '0') }) };
    const headers = { 'if-match': ifMatch, ...(createOnly ? { 'if-none-match': '*' } : {}) };
    return (await this.#client.call('writeFile', { ...rest, params: this.#params, query, headers, bytes })).file;
  }

  /** Returns the entries of a directory and, down to `depth`, below it; each directory comes before its entries. */
  list(
    path = '/workspace',
    { depth, user, ...options }: FileOptions & PageOptions & { depth?: number } = {},
  ): PagedList<FileEntry> {
    const query = { path, ...as(user), depth };
    return pagedList(this.#client, 'listFiles', { ...options, params: this.#params, query });
  }

  /** Returns the entry at the path. A link is not followed. */
  async stat(path: string, { user, ...options }: FileOptions = {}): Promise<FileEntry> {
    const query = { path, ...as(user) };
    return (await this.#client.call('statFile', { ...options, params: this.#params, query })).file;
  }

  async exists(path: string, options: FileOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      // If the sandbox itself does not exist, the answer is an error.
      if (isClocheError(error, 'not_found') && error.details?.resource !== 'sandbox') return false;
      throw error;
    }
  }

  /** Creates a directory and missing directories above it. Idempotent. */
  async makeDirectory(path: string, { user, ...options }: FileOptions = {}): Promise<FileEntry> {
    const body = { path, ...as(user) };
    return (await this.#client.call('makeDirectory', { ...options, params: this.#params, body })).file;
  }

  async move(from: string, to: string, { overwrite, user, ...options }: TransferOptions = {}): Promise<FileEntry> {
    const body = { from, to, ...as(user), ...(overwrite === undefined ? {} : { overwrite }) };
    return (await this.#client.call('moveFile', { ...options, params: this.#params, body })).file;
  }

  async copy(from: string, to: string, { overwrite, user, ...options }: TransferOptions = {}): Promise<FileEntry> {
    const body = { from, to, ...as(user), ...(overwrite === undefined ? {} : { overwrite }) };
    return (await this.#client.call('copyFile', { ...options, params: this.#params, body })).file;
  }

  /** Deletes a file or a directory and returns its entry. A directory that is not empty requires `recursive`. */
  async remove(
    path: string,
    { recursive, user, ...options }: FileOptions & { recursive?: boolean } = {},
  ): Promise<FileEntry> {
    const query = { path, ...as(user), ...(recursive === undefined ? {} : { recursive }) };
    return (await this.#client.call('deleteFile', { ...options, params: this.#params, query })).file;
  }

  /** Returns a directory as an archive that is packed while it is read. Default format: `tar.gz`. */
  async archive(path = '/workspace', { format, user, ...options }: FileOptions & { format?: ArchiveFormat } = {}) {
    const query = { path, ...as(user), ...(format === undefined ? {} : { format }) };
    return streamOf(await this.#client.download('readArchive', { ...options, params: this.#params, query }));
  }

  /** Unpacks a tar (plain, gzip, zstd) or a zip into a directory, completely or not at all. */
  async unpack(path: string, bytes: UploadBytes, { user, ...options }: FileOptions = {}) {
    const query = { path, ...as(user) };
    return this.#client.call('writeArchive', { ...options, params: this.#params, query, bytes });
  }

  /**
   * Yields the changes in a directory and, with `recursive`, below it. Ends when the loop is left or the directory is
   * deleted.
   *
   * ```ts
   * for await (const event of sandbox.files.watch('results')) if (event.type === 'created') console.log(event.data.path);
   * ```
   *
   * The loop opens the watch. `onOpen` is called once, when all later changes will be reported. A pause of the sandbox
   * ends no loop: `overflow` follows when something has resumed it.
   */
  async *watch(
    path = '/workspace',
    { recursive, user, onOpen, onPaused, ...options }: WatchOptions = {},
  ): AsyncGenerator<FileEvent, void> {
    const query = { path, ...as(user), ...(recursive === undefined ? {} : { recursive }) };
    let isOpen = false;
    const open = () => {
      if (!isOpen) onOpen?.();
      isOpen = true;
    };
    for (;;) {
      try {
        return yield* this.#client.watch('watchFiles', { ...options, params: this.#params, query }, open);
      } catch (error) {
        if (!isOpen || !isClocheError(error, 'sandbox_paused')) throw error;
      }
      await onPaused?.();
      await untilResumed(this.#client, this.#params.sandboxId, options);
      yield { type: 'overflow', data: {} };
    }
  }

  #open(path: string, { range, ifMatch, user, ...options }: ReadFileOptions): Promise<Response> {
    const query = { path, ...as(user) };
    const headers = { 'if-match': ifMatch, ...(range ? { range: rangeHeader(range) } : {}) };
    return this.#client.download('readFile', { ...options, params: this.#params, query, headers });
  }
}

function as(user: FileUser | undefined): { user?: FileUser } {
  return user === undefined ? {} : { user };
}

function rangeHeader({ start, end }: { start: number; end?: number | undefined }): string {
  return `bytes=${start}-${end === undefined ? '' : end - 1}`;
}

function streamOf(response: Response): FileStream {
  const { headers } = response;
  const length = headers.get('content-length');
  const body = response.body ?? new ReadableStream({ start: (controller) => controller.close() });
  return {
    body,
    sizeBytes: length === null ? undefined : Number(length),
    etag: headers.get('etag') ?? undefined,
  };
}
