import type { Readable } from 'node:stream';
import type { ArchiveFormat } from '@cloche/contract';
import type {
  AgentFile,
  AgentFileErrorCode,
  AgentFileEvent,
  AgentUnpacked,
  ArchiveAttempt,
  FileUser,
} from '@cloche/protocol';

/** The files of one instance, accessed through its agent. Paths are in the form in which clients write them. */
export interface AgentFiles {
  /** Returns access to the same files with the rights of another user of the sandbox. The default is `user`. */
  as(user: FileUser | undefined): AgentFiles;
  /**
   * Opens a file. `options.headers` may have `range`, `if-range`, `if-match` and `if-none-match`, with HTTP's meaning.
   * The body ends with an error when the file became shorter or the signal aborted.
   *
   * @throws FileError, or AgentError when the agent breaks the protocol or is gone.
   */
  read(path: string, options: ReadOptions, signal: AbortSignal): Promise<FileContent>;
  /** Replaces the file once the whole source has arrived, and leaves it unchanged otherwise. Throws as `read` does. */
  write(path: string, source: FileSource, options: WriteOptions, signal: AbortSignal): Promise<AgentFile>;
  /**
   * Yields the entries of a directory and its descendants down to `depth`, as they arrive. Throws `too_many` above
   * `limit` entries or `LIMITS.fileListBytes`.
   */
  list(path: string, options: ListOptions, signal: AbortSignal): AsyncIterable<AgentFile>;
  /** @param details adds attributes, and what a link leads to */
  stat(path: string, signal: AbortSignal, details?: boolean): Promise<AgentFile>;
  /** Creates a directory and its missing parents. Idempotent. */
  makeDirectory(path: string, signal: AbortSignal): Promise<AgentFile>;
  move(transfer: FileTransfer, signal: AbortSignal): Promise<AgentFile>;
  copy(transfer: FileTransfer, signal: AbortSignal): Promise<AgentFile>;
  /**
   * Returns an archive of a file or a directory, packed while it is read. If packing fails, the connection breaks
   * before the end of the body.
   */
  archive(path: string, format: ArchiveFormat, signal: AbortSignal): Promise<Readable>;
  /**
   * Unpacks a tar or a zip into a directory, completely or not at all. With `source.attempt`, the agent refuses it with
   * `conflict` after a later attempt, and ends it when a later one begins.
   */
  unarchive(path: string, source: ArchiveSource, signal: AbortSignal): Promise<AgentUnpacked>;
  /**
   * Resolves when the watch has begun. `ended` is the last event. Leaving the iteration or aborting the signal ends the
   * watch.
   */
  watch(path: string, options: { recursive: boolean }, signal: AbortSignal): Promise<AsyncIterable<AgentFileEvent>>;
  /** Removes a file or a directory and returns its description. */
  remove(path: string, options: { recursive: boolean }, signal: AbortSignal): Promise<AgentFile>;
}

export interface ListOptions {
  readonly depth: number;
  /** Maximum number of entries. */
  readonly limit: number;
  /** Whether each entry has its attributes, and what a link leads to. */
  readonly details?: boolean;
}

export interface FileTransfer {
  readonly from: string;
  readonly to: string;
  readonly overwrite: boolean;
}

export interface ReadOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** Whether to leave out the body. */
  readonly headOnly?: boolean;
}

export interface WriteOptions {
  /** May have `if-match` and `if-none-match`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Permissions in octal. */
  readonly mode?: string | undefined;
}

export interface FileContent {
  readonly status: 200 | 206 | 304;
  /** Bytes of the body; undefined for 304. */
  readonly sizeBytes: number | undefined;
  readonly etag: string | undefined;
  /** The `Content-Range` header of a partial response, with the file's full size. */
  readonly contentRange: string | undefined;
  /** Yields exactly `sizeBytes` bytes, or fails. */
  readonly body: Readable;
}

export interface FileSource {
  /** Size of the source, if known in advance. */
  readonly sizeBytes?: number | undefined;
  /** Opens the source. Called at most once, when the agent asks for the bytes. */
  open(): Readable;
}

export interface ArchiveSource extends FileSource {
  /** Which attempt this is, for the archive of a workspace run. */
  readonly attempt?: ArchiveAttempt;
}

/** The agent refused a request because of the file or the arguments. The message is for the client. */
export class FileError extends Error {
  override readonly name = 'FileError';
  readonly kind: AgentFileErrorCode;
  /** Further fields for the client; their sizes have been checked. */
  readonly details: FileErrorDetails;

  constructor(kind: AgentFileErrorCode, message: string, details: FileErrorDetails = {}) {
    super(message);
    this.kind = kind;
    this.details = details;
  }
}

export interface FileErrorDetails {
  /** Size of the file in bytes, if it does not have the requested range. */
  readonly sizeBytes?: number;
  /** The path that the user lacks the rights for. */
  readonly path?: string;
}
