import { createHash, randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ArchiveProgress, ArchiveSource, PackOptions } from './archive-source.ts';
import { packingFailed } from './packed-path.ts';

const CHUNK_BYTES = 256 * 1024;

/**
 * Writes an archive to a temporary file, which is deleted when the source is disposed or the process ends.
 * @throws {ClocheError} `packing_failed` if the archive is too large, or the disk is full.
 */
export async function spool(
  archive: AsyncIterable<Buffer>,
  format: ArchiveSource['format'],
  { maxBytes, signal }: PackOptions,
): Promise<ArchiveSource> {
  const file = await openNameless();
  try {
    const packed = await write(archive, file, maxBytes, signal);
    return {
      format,
      packed,
      open: (onProgress) => read(file, packed.sizeBytes, onProgress),
      [Symbol.asyncDispose]: () => file.close(),
    };
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Opens a file without a name. The system deletes it when it is closed, also if the process is killed. */
async function openNameless(): Promise<FileHandle> {
  const path = join(largeFilesFolder(), `.cloche-${randomBytes(6).toString('hex')}.part`);
  const file = await open(path, 'wx+', 0o600);
  await unlink(path);
  return file;
}

/** Returns a folder for large temporary files: `/tmp` is often kept in memory. */
function largeFilesFolder(): string {
  if (process.env.TMPDIR) return process.env.TMPDIR;
  return existsSync('/var/tmp') ? '/var/tmp' : tmpdir();
}

async function write(
  archive: AsyncIterable<Buffer>,
  file: FileHandle,
  maxBytes: number,
  signal: AbortSignal | undefined,
): Promise<{ sizeBytes: number; sha256: string }> {
  const hash = createHash('sha256');
  let sizeBytes = 0;
  for await (const chunk of archive) {
    signal?.throwIfAborted();
    sizeBytes += chunk.length;
    if (sizeBytes > maxBytes) {
      const remedy = 'list what the command does not need in .clocheignore';
      throw packingFailed(`its archive is larger than ${maxBytes} bytes; ${remedy}`);
    }
    hash.update(chunk);
    await writeAll(file, chunk);
  }
  return { sizeBytes, sha256: hash.digest('hex') };
}

async function writeAll(file: FileHandle, chunk: Buffer): Promise<void> {
  try {
    for (let at = 0; at < chunk.length; ) at += (await file.write(chunk, at)).bytesWritten;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw packingFailed(`${largeFilesFolder()} has no room for its archive (${code}); set TMPDIR`, error);
  }
}

async function* read(
  file: FileHandle,
  totalBytes: number,
  onProgress: (progress: ArchiveProgress) => void,
): AsyncGenerator<Buffer, void> {
  for (let at = 0; at < totalBytes; ) {
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(CHUNK_BYTES), 0, CHUNK_BYTES, at);
    if (bytesRead === 0) throw packingFailed('its temporary archive became shorter');
    at += bytesRead;
    onProgress({ phase: 'uploading', bytes: at, totalBytes });
    yield buffer.subarray(0, bytesRead);
  }
}
