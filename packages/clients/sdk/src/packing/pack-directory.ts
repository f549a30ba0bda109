import { realpathSync, statSync } from 'node:fs';
import type { ArchiveProgress, ArchiveSource, PackDirectory } from './archive-source.ts';
import { compress, compressedFormat } from './compress.ts';
import { findEntries } from './find-entries.ts';
import { packingFailed } from './packed-path.ts';
import { spool } from './spool.ts';
import { tarBytesOf, writeTar } from './write-tar.ts';

/**
 * Packs a directory as a tar without what `.gitignore` and `.clocheignore` leave out. The same files become the same
 * bytes. A small archive is packed while it is read; a large one is packed into a temporary file first, because its
 * size must be known before it is sent.
 * @throws {ClocheError} `packing_failed`
 */
export const packDirectory: PackDirectory = async (directory, options) => {
  const { signal, onNote, maxEntries } = options;
  const root = rootOf(directory);
  const { entries, notes } = await findEntries(root, maxEntries, signal);
  for (const note of notes) onNote(note);
  const totalBytes = tarBytesOf(entries);
  const pack = (phase: ArchiveProgress['phase'], onProgress: (progress: ArchiveProgress) => void) =>
    counted(writeTar(root, entries, onNote, signal), (bytes) => onProgress({ phase, bytes, totalBytes }));
  if (totalBytes > options.streamedBytes) {
    return spool(compress(pack('packing', options.onProgress)), compressedFormat, options);
  }
  const streamed = (onProgress: (progress: ArchiveProgress) => void) => pack('uploading', onProgress);
  return {
    format: options.compress ? compressedFormat : 'tar',
    packed: undefined,
    open: options.compress ? (onProgress) => compress(streamed(onProgress)) : streamed,
    async [Symbol.asyncDispose]() {},
  } satisfies ArchiveSource;
};

function rootOf(directory: string): Buffer {
  try {
    if (statSync(directory).isDirectory()) return realpathSync.native(directory, { encoding: 'buffer' });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw packingFailed(`${directory} ${code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`}`, error);
  }
  throw packingFailed(`${directory} is not a directory`);
}

async function* counted(chunks: AsyncIterable<Buffer>, onBytes: (bytes: number) => void): AsyncGenerator<Buffer, void> {
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    onBytes(bytes);
    yield chunk;
  }
}
