import type { ArchiveFormat, FileEntry, FileEvent, FileUser, SandboxId } from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { isClocheError } from './cloche-error.ts';
import type { CallOptions, UploadBytes } from './request.ts';

export interface FileOptions extends CallOptions {
  /**
   * Whose rights it has: those of the user that code runs as, or of `root`, which is the root of the sandbox alone. What
   * they do not allow is `permission_denied`. Default: `user`.
   */
  user?: FileUser | undefined;
}

export interface ReadFileOptions extends FileOptions {
  /** The first byte, and the one behind the last; to the end where left out. */
  range?: { start: number; end?: number | undefined } | undefined;
  /** ETag that the file must have; else `precondition_failed`. */
  ifMatch?: string | undefined;
}

export interface WriteFileOptions extends FileOptions {
  /** Permissions, such as 0o755. Default: those of the file that is there, or 0o644. */
  mode?: number | undefined;
  /** ETag of the file that may be replaced; else `precondition_failed`. */
  ifMatch?: string | undefined;
  /** Only where there is no file yet; else `precondition_failed`. */
  createOnly?: boolean | undefined;
}

export interface TransferOptions extends FileOptions {
  /** Replaces what is there, a whole directory as well. Default: `conflict`. */
  overwrite?: boolean | undefined;
}

/** A file that is being read. */
export interface FileStream {
  readonly body: ReadableStream<Uint8Array>;
  /** Of what comes, a part as well; undefined where the service does not say. */
  readonly sizeBytes: number | undefined;
  readonly etag: string | undefined;
}

/**
 * The files of a sandbox. Paths are absolute, relative to `/workspace`, or `file:///` URIs, which spell names of any
 * bytes.
 */
export class Files {
  readonly #client: ApiClient;
  readonly #params: { sandboxId: SandboxId };

  constructor(client: ApiClient, sandboxId: SandboxId) {
    this.#client = client;
    this.#params = { sandboxId };
  }

  /** All bytes of a file. */
  async read(path: string, options: ReadFileOptions = {}): Promise<Uint8Array> {
    return new Uint8Array(await (await this.#open(path, options)).arrayBuffer());
  }

  async readText(path: string, options: ReadFileOptions = {}): Promise<string> {
    return (await this.#open(path, options)).text();
  }

  /** A file as it comes: any size, and no more in memory than what has been read and not used. */
  async stream(path: string, options: ReadFileOptions = {}): Promise<FileStream> {
    return streamOf(await this.#open(path, options));
  }

  /** Replaces the file when all of it has arrived; makes the directories above it. A stream is not retried. */
  async write(path: string, bytes: UploadBytes, options: WriteFileOptions = {}): Promise<FileEntry> {
    const { mode, ifMatch, createOnly, user, ...rest } = options;
    const query = { path, ...as(user), ...(mode === undefined ? {} : { mode: mode.toString(8).padStart(3, '0') }) };
    const headers = { 'if-match': ifMatch, ...(createOnly ? { 'if-none-match': '*' } : {}) };
    return (await this.#client.call('writeFile', { ...rest, params: this.#params, query, headers, bytes })).file;
  }

  /** What is in a directory and, down to `depth`, below it; directories before what they hold. */
  async list(
    path = '/workspace',
    { depth, user, ...options }: FileOptions & { depth?: number } = {},
  ): Promise<FileEntry[]> {
    const query = { path, ...as(user), ...(depth === undefined ? {} : { depth }) };
    return (await this.#client.call('listFiles', { ...options, params: this.#params, query })).data;
  }

  /** What is at the path itself: a link is not followed. */
  async stat(path: string, { user, ...options }: FileOptions = {}): Promise<FileEntry> {
    const query = { path, ...as(user) };
    return (await this.#client.call('statFile', { ...options, params: this.#params, query })).file;
  }

  async exists(path: string, options: FileOptions = {}): Promise<boolean> {
    try {
      await this.stat(path, options);
      return true;
    } catch (error) {
      // Of a sandbox that does not exist, nothing can be said.
      if (isClocheError(error, 'not_found') && !error.message.includes('no sandbox')) return false;
      throw error;
    }
  }

  /** And those above it. Idempotent. */
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

  /** What was there. A directory that is not empty only with `recursive`. */
  async remove(
    path: string,
    { recursive, user, ...options }: FileOptions & { recursive?: boolean } = {},
  ): Promise<FileEntry> {
    const query = { path, ...as(user), ...(recursive === undefined ? {} : { recursive }) };
    return (await this.#client.call('deleteFile', { ...options, params: this.#params, query })).file;
  }

  /** A directory as an archive, packed while it is read. Default: `tar.gz`. */
  async archive(path = '/workspace', { format, user, ...options }: FileOptions & { format?: ArchiveFormat } = {}) {
    const query = { path, ...as(user), ...(format === undefined ? {} : { format }) };
    return streamOf(await this.#client.download('readArchive', { ...options, params: this.#params, query }));
  }

  /** Unpacks a tar (plain, gzip, zstd) or a zip into a directory: all of it or nothing. */
  async unpack(path: string, bytes: UploadBytes, { user, ...options }: FileOptions = {}) {
    const query = { path, ...as(user) };
    return this.#client.call('writeArchive', { ...options, params: this.#params, query, bytes });
  }

  /**
   * What changes in a directory and, with `recursive`, below it, until the loop is left or the directory is gone.
   *
   * ```ts
   * for await (const event of sandbox.files.watch('results')) if (event.type === 'created') console.log(event.data.path);
   * ```
   */
  watch(
    path = '/workspace',
    { recursive, user, ...options }: Omit<FileOptions, 'idempotencyKey'> & { recursive?: boolean } = {},
  ): AsyncGenerator<FileEvent, void> {
    const query = { path, ...as(user), ...(recursive === undefined ? {} : { recursive }) };
    return this.#client.watch('watchFiles', { ...options, params: this.#params, query });
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
