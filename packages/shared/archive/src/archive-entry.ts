import type { Readable } from 'node:stream';

/** An entry of an archive of any format. Names have one character for each byte (Latin-1). */
export interface ArchiveEntry {
  readonly name: string;
  readonly type: 'file' | 'directory' | 'symlink' | 'hardlink';
  /** Permission bits. */
  readonly mode: number;
  /** Seconds since the epoch. */
  readonly mtime: number;
  /** Target of a link, as written in the archive. */
  readonly target: string;
  /** Size of the content, as the archive states it. Reading the content fails if it has another size. */
  readonly sizeBytes: number;
  /** Numbers of the owner and its group, in formats that have them. */
  readonly uid?: number;
  readonly gid?: number;
  /** Extended attributes, by their full names, in formats that have them. */
  readonly xattrs?: ReadonlyMap<string, string> | undefined;
  /** Position of the content in a tar. */
  readonly contentOffset?: number;
  /** Content of a file. Read it before the next entry. */
  readonly content: AsyncIterable<Buffer> | Readable;
  /** The whole content in memory, if it is small. */
  readonly bytes?: Buffer | undefined;
}

/**
 * An archive is broken, or unsafe to unpack from an untrusted sender. The message is the reason, for the sender: a
 * clause without a period.
 */
export class InvalidArchiveError extends Error {
  override readonly name = 'InvalidArchiveError';
  readonly code = 'bad_archive';
}

export function invalidArchive(why: string): InvalidArchiveError {
  return new InvalidArchiveError(why);
}
