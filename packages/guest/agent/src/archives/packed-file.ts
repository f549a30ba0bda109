import { type BigIntStats, constants } from 'node:fs';
import { closeLater } from '@cloche/node-support';
import { AdaptiveFile } from '../files/adaptive-file.ts';
import { isAboutOneFile, PermissionDeniedError } from '../files/file-error.ts';
import type { FilePath } from '../files/file-path.ts';
import type { FileSystem } from '../files/file-system.ts';

const CHUNK_BYTES = 256 * 1024;

/** A file to pack, and its name in the archive. */
export interface PackedFile {
  readonly path: FilePath;
  /** Holds one byte in each character (Latin-1). The name of a directory has no slash at its end. */
  readonly name: string;
  readonly stat: BigIntStats;
  /** Target of a symbolic link. */
  readonly link?: Buffer;
}

/** Yields exactly `size` bytes. Bytes appended meanwhile are left out; bytes removed meanwhile are sent as zeros. */
export async function* contentOf(path: FilePath, size: number, system: FileSystem): AsyncGenerator<Buffer, void> {
  if (size === 0) return;
  const fd = openIfPresent(path, system);
  try {
    const file = fd === undefined ? undefined : new AdaptiveFile(fd);
    for (let at = 0; at < size; ) {
      const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size - at));
      const bytesRead = file ? await file.read(buffer, buffer.length, at) : 0;
      yield bytesRead === 0 ? buffer.fill(0) : buffer.subarray(0, bytesRead);
      at += bytesRead === 0 ? buffer.length : bytesRead;
    }
  } finally {
    if (fd !== undefined) closeLater(fd);
  }
}

/** Opens a file for reading. If a link has replaced it, opening fails; if a pipe has, opening does not block. */
function openIfPresent(path: FilePath, system: FileSystem): number | undefined {
  return ifPossible(system, () => system.open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW));
}

/** Returns the result of `act`, or undefined for a file that archives leave out. */
export function ifPossible<T>(system: FileSystem, act: () => T): T | undefined {
  try {
    return act();
  } catch (error) {
    if (isLeftOut(error, system)) return undefined;
    throw error;
  }
}

/** Returns whether an archive leaves a file out: it has vanished, or even root may not read it. */
export function isLeftOut(error: unknown, system: FileSystem): boolean {
  const isForRoot = error instanceof PermissionDeniedError && system.user !== 'root';
  return isAboutOneFile(error) && !isForRoot;
}
