import { constants } from 'node:fs';
import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { detectArchive, InvalidArchiveError, invalidArchive, readCompressedTarGroups, readZip } from '@cloche/archive';
import { closeLater, onAbort } from '@cloche/node-support';
import type { AgentUnpacked } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { describeFile } from '../files/file-entry.ts';
import { toFileError } from '../files/file-error.ts';
import type { FilePath } from '../files/file-path.ts';
import { closeQuietly, type FileSystem } from '../files/file-system.ts';
import { makeFolders, removeFolders } from '../files/folders.ts';
import { receive } from '../files/receive.ts';
import { temporaryIn } from '../files/temporary.ts';
import { ARCHIVE_FORMATS, type ArchiveFormat, pack } from './pack.ts';
import { type UnpackLimits, unpack } from './unpack.ts';

const LIMITS: UnpackLimits = { maxEntries: 200_000, maxBytes: Number.MAX_SAFE_INTEGER };

export async function sendArchive(
  path: FilePath,
  format: string,
  system: FileSystem,
  response: ServerResponse,
): Promise<void> {
  if (!isFormat(format)) throw new AgentError('bad_request', `format is one of ${ARCHIVE_FORMATS.join(', ')}.`);
  const archive = await pack(path, format, system);
  response.writeHead(200);
  await pipeline(archive, response);
}

/**
 * Unpacks the archive that `openSource` returns, and destroys that stream. Unpacks into `path`, which is created if it
 * does not exist. Ends when `signal` aborts, as `unpack` does.
 */
export async function receiveArchive(
  path: FilePath,
  openSource: () => Readable,
  system: FileSystem,
  signal: AbortSignal,
): Promise<AgentUnpacked> {
  let made: FilePath[] = [];
  try {
    made = makeFolders(path, system);
    const folder = system.realpath(path);
    const source = openSource();
    // Ends a wait for the rest of the archive.
    using _ = onAbort(signal, () => source.destroy());
    try {
      const unpacked = await unpackSource(source, folder, system, signal);
      return { file: describeFile(path, system), ...unpacked };
    } finally {
      source.destroy();
    }
  } catch (error) {
    removeFolders(made, system);
    signal.throwIfAborted();
    throw error instanceof InvalidArchiveError
      ? new AgentError('bad_archive', error.message)
      : toFileError(error, path);
  }
}

async function unpackSource(source: Readable, folder: FilePath, system: FileSystem, signal: AbortSignal) {
  const first = await firstBytes(source);
  const kind = detectArchive(first);
  if (kind === 'zip') return unpackZip(source, folder, system, signal);
  return unpack(readCompressedTarGroups(source, kind), folder, system, LIMITS, signal);
}

/** Stores the archive before it unpacks it, because the directory of a zip is at its end. */
async function unpackZip(source: Readable, folder: FilePath, system: FileSystem, signal: AbortSignal) {
  const fd = openUnnamedFile(folder, system);
  try {
    await receive(source, fd);
    return await unpack(eachAlone(readZip(fd)), folder, system, LIMITS, signal);
  } finally {
    closeLater(fd);
  }
}

async function* eachAlone<T>(entries: AsyncIterable<T>): AsyncGenerator<readonly T[], void> {
  for await (const entry of entries) yield [entry];
}

/** Opens a temporary file without a name. The system deletes it when its descriptor is closed. */
function openUnnamedFile(folder: FilePath, system: FileSystem): number {
  return system.run(() => {
    const path = temporaryIn(folder);
    const fd = system.open(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
    try {
      system.unlink(path);
      return fd;
    } catch (error) {
      closeQuietly(fd);
      throw error;
    }
  });
}

/**
 * Returns at least the first four bytes, padded with zeros if the source is shorter. Puts the bytes back, so that
 * the source can be read from its beginning. Throws `bad_archive` if the source is empty.
 */
async function firstBytes(source: Readable): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let bytes = 0; bytes < 4; ) {
    const part = source.read() as Buffer | null;
    if (part === null) {
      if (source.readableEnded || source.destroyed) break;
      const more = await new Promise<boolean>((resolve) => {
        source.once('readable', () => resolve(true));
        source.once('end', () => resolve(false));
        source.once('close', () => resolve(false));
      });
      if (!more) break;
      continue;
    }
    parts.push(part);
    bytes += part.length;
  }
  const first = Buffer.concat(parts);
  if (first.length > 0 && !source.readableEnded) source.unshift(first);
  if (first.length === 0) throw invalidArchive('it is empty');
  return first.length >= 4 ? first : Buffer.concat([first, Buffer.alloc(4)]);
}

function isFormat(text: string): text is ArchiveFormat {
  return (ARCHIVE_FORMATS as readonly string[]).includes(text);
}
