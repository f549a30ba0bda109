import type { Readable } from 'node:stream';
import { AgentError } from '../agent-error.ts';

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

/** What is wrong with an archive, for whoever sent it. */
export function badArchive(why: string): AgentError {
  return new AgentError('bad_archive', `The archive is refused: ${why}.`);
}
