import type { Readable } from 'node:stream';
import type { ArchiveFormat } from '@cloche/contract';
import type { AgentFile, AgentFileErrorCode, AgentFileEvent, AgentUnpacked, FileUser } from '@cloche/protocol';
import type { ResultRoom } from '../base/result-rooms.ts';

/** The files of one instance, through its agent. Paths are as clients write them. */
export interface AgentFiles {
  /** Returns the same files, accessed with the rights of that user of the sandbox. The default is `user`. */
  as(user: FileUser | undefined): AgentFiles;
  /**
   * `headers`: `range`, `if-range`, `if-match` and `if-none-match`, as HTTP has them. The body ends early, with an error,
   * when the file became shorter or the signal aborted.
   *
   * @throws FileFault, or AgentFault when the agent breaks the protocol or is gone.
   */
  read(path: string, options: ReadOptions, signal: AbortSignal): Promise<FileContent>;
  /** Replaces the file when all of the source has come, and leaves it alone otherwise. Throws as `read` does. */
  write(path: string, source: FileSource, options: WriteOptions, signal: AbortSignal): Promise<AgentFile>;
  /**
   * Lists a directory, and what is below it down to `depth`. Throws `too_many` above `limit` entries or
   * `LIMITS.fileListBytes`.
   */
  list(path: string, options: ListOptions, signal: AbortSignal): Promise<AgentFile[]>;
  stat(path: string, signal: AbortSignal): Promise<AgentFile>;
  /** Idempotent; makes those above it as well. */
  makeDirectory(path: string, signal: AbortSignal): Promise<AgentFile>;
  move(transfer: FileTransfer, signal: AbortSignal): Promise<AgentFile>;
  copy(transfer: FileTransfer, signal: AbortSignal): Promise<AgentFile>;
  /** A file or a directory, packed while it is read. Of a body that ends early the connection breaks. */
  archive(path: string, format: ArchiveFormat, signal: AbortSignal): Promise<Readable>;
  /** Unpacks a tar or a zip into a directory, all of it or nothing. */
  unarchive(path: string, source: FileSource, signal: AbortSignal): Promise<AgentUnpacked>;
  /** Resolves when the watch has begun. `ended` is last; leaving the iteration, or the signal, ends it too. */
  watch(path: string, options: { recursive: boolean }, signal: AbortSignal): Promise<AsyncIterable<AgentFileEvent>>;
  /** What was there. */
  remove(path: string, options: { recursive: boolean }, signal: AbortSignal): Promise<AgentFile>;
}

export interface ListOptions {
  readonly depth: number;
  /** The most entries. */
  readonly limit: number;
  /** Asked before more of the listing is read. */
  readonly room?: ResultRoom;
}

export interface FileTransfer {
  readonly from: string;
  readonly to: string;
  readonly overwrite: boolean;
}

export interface ReadOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** The body is left out. */
  readonly headOnly?: boolean;
}

export interface WriteOptions {
  /** `if-match` and `if-none-match`. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Permissions in octal. */
  readonly mode?: string | undefined;
}

export interface FileContent {
  readonly status: 200 | 206 | 304;
  /** Bytes of the body; undefined for 304. */
  readonly sizeBytes: number | undefined;
  readonly etag: string | undefined;
  /** Of a part: as HTTP writes it, with the size of the whole. */
  readonly contentRange: string | undefined;
  /** Exactly `sizeBytes`, or an error. */
  readonly body: Readable;
}

export interface FileSource {
  /** Where it is known beforehand. */
  readonly sizeBytes?: number | undefined;
  /** Called when the agent wants the bytes, at most once. */
  open(): Readable;
}

/** The agent refused: the file, or what is asked of it, is not so. Its message is for the client. */
export class FileFault extends Error {
  override readonly name = 'FileFault';
  readonly kind: AgentFileErrorCode;
  /** Further fields for clients; their bounds are checked. */
  readonly details: FileFaultDetails;

  constructor(kind: AgentFileErrorCode, message: string, details: FileFaultDetails = {}) {
    super(message);
    this.kind = kind;
    this.details = details;
  }
}

export interface FileFaultDetails {
  /** Size of the file in bytes, if it does not have the requested range. */
  readonly sizeBytes?: number;
  /** The path that the user lacks the rights for. */
  readonly path?: string;
}
