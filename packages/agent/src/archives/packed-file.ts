import { type BigIntStats, close, constants } from 'node:fs';
import { codeOf, type FilePath } from '../files/file-path.ts';
import type { FileSystem } from '../files/file-system.ts';
import { QuickFile } from '../files/quick-file.ts';

const CHUNK_BYTES = 256 * 1024;

/** What is packed: where it is, and its name in the archive. */
export interface PackedFile {
  readonly path: FilePath;
  /** One character a byte; of a directory without a slash. */
  readonly name: string;
  readonly stat: BigIntStats;
}

/** Exactly `size` bytes: what a file gains meanwhile is left out, what it loses is zeros. */
export async function* contentOf(path: FilePath, size: number, system: FileSystem): AsyncGenerator<Buffer, void> {
  if (size === 0) return;
  const fd = openWhereThere(path, system);
  try {
    const file = fd === undefined ? undefined : new QuickFile(fd);
    for (let at = 0; at < size; ) {
      const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size - at));
      const bytesRead = file ? await file.read(buffer, buffer.length, at) : 0;
      yield bytesRead === 0 ? buffer.fill(0) : buffer.subarray(0, bytesRead);
      at += bytesRead === 0 ? buffer.length : bytesRead;
    }
  } finally {
    if (fd !== undefined) close(fd);
  }
}

/** A link or a pipe that has taken its place leads nowhere, and is waited for by nothing. */
function openWhereThere(path: FilePath, system: FileSystem): number | undefined {
  return whereThere(() => system.open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW));
}

/** Undefined for what is deleted while it is packed. */
export function whereThere<T>(act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}
