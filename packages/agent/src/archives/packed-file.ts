import type { BigIntStats } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { bytesOf, type FilePath } from '../files/file-path.ts';
import { codeOf } from '../files/owner.ts';

const CHUNK_BYTES = 256 * 1024;

/** What is packed: where it is, and its name in the archive. */
export interface PackedFile {
  readonly path: FilePath;
  /** One character a byte; of a directory without a slash. */
  readonly name: string;
  readonly stat: BigIntStats;
}

/** Exactly `size` bytes: what a file gains meanwhile is left out, what it loses is zeros. */
export async function* contentOf(path: FilePath, size: number): AsyncGenerator<Buffer, void> {
  let handle: FileHandle | undefined;
  try {
    handle = await open(bytesOf(path), 'r').catch(ignoreGone);
    for (let at = 0; at < size; ) {
      const buffer = Buffer.allocUnsafe(Math.min(CHUNK_BYTES, size - at));
      const { bytesRead } = handle ? await handle.read(buffer, 0, buffer.length, at) : { bytesRead: 0 };
      yield bytesRead === 0 ? buffer.fill(0) : buffer.subarray(0, bytesRead);
      at += bytesRead === 0 ? buffer.length : bytesRead;
    }
  } finally {
    await handle?.close();
  }
}

/** For what is deleted while it is packed. */
export function ignoreGone(error: unknown): undefined {
  if (codeOf(error) === 'ENOENT') return undefined;
  throw error;
}
