import type { Readable } from 'node:stream';

/** One thing in an archive, whatever its format. Names are one character a byte. */
export interface ArchiveEntry {
  readonly name: string;
  readonly type: 'file' | 'directory' | 'symlink' | 'hardlink';
  /** Permission bits. */
  readonly mode: number;
  /** Seconds since the epoch. */
  readonly mtime: number;
  /** Of a link, as it is written. */
  readonly target: string;
  /** The content of a file, to be read before the next entry is asked for. */
  readonly content: AsyncIterable<Buffer> | Readable;
}

/**
 * An archive that is broken, or that has content which is unsafe to unpack from an untrusted sender. The message is for
 * the sender.
 */
export class BadArchive extends Error {
  override readonly name = 'BadArchive';
  readonly code = 'bad_archive';

  constructor(why: string) {
    super(`The archive is refused: ${why}.`);
  }
}

export function badArchive(why: string): BadArchive {
  return new BadArchive(why);
}
