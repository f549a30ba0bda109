import { closeSync, constants } from 'node:fs';
import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { TAR_BLOCK_BYTES, tarPadding, writeTarHeader } from '@cloche/archive';
import { TimeSlice } from '@cloche/node-support';
import { onFile, toFileError } from '../files/file-error.ts';
import { type FilePath, joined } from '../files/file-path.ts';
import type { FileSystem } from '../files/file-system.ts';
import { namesIn } from '../files/list-files.ts';
import { contentOf, ifPossible, isLeftOut, type PackedFile } from './packed-file.ts';
import { zipOf } from './write-zip.ts';

export const ARCHIVE_FORMATS = ['tar', 'tar.gz', 'zip'] as const;
export type ArchiveFormat = (typeof ARCHIVE_FORMATS)[number];

/** Favours speed over size, because the archive is sent once and not stored. */
const GZIP_LEVEL = 3;
const CHUNK_BYTES = 256 * 1024;

/**
 * Returns an archive of the file or folder at `path`. The entries of a folder have names relative to it. Pipes, sockets
 * and devices are left out. Throws before the first byte if nothing is at `path`, or if the user may not read a file.
 */
export async function pack(path: FilePath, format: ArchiveFormat, system: FileSystem): Promise<Readable> {
  const stat = onFile(path, () => system.lstat(path));
  const single = { path, name: posix.basename(path), stat };
  const names = stat.isDirectory() ? await namesIn(path, system).catch((error) => rethrow(error, path)) : [];
  const files = () => readable(stat.isDirectory() ? below(path, names, '', system) : [single], system);
  // Checks in advance that all files can be read. Once the response has begun, an error can only cut it off.
  for await (const _ of files());
  if (format === 'zip') return zipOf(files(), system);
  const tar = Readable.from(tarOf(files(), system), { objectMode: false, highWaterMark: CHUNK_BYTES });
  if (format === 'tar') return tar;
  // Loaded on first use, to save memory in an idle sandbox.
  const gzip = process.getBuiltinModule('node:zlib').createGzip({ level: GZIP_LEVEL, chunkSize: 64 * 1024 });
  tar.on('error', (error) => gzip.destroy(error));
  // The reader of the stream gets the error through its own listener. This one catches errors after that reader has
  // left.
  gzip.on('error', () => undefined);
  gzip.on('close', () => tar.destroy());
  return tar.pipe(gzip);
}

function rethrow(error: unknown, path: FilePath): never {
  throw toFileError(error, path);
}

/** Leaves out what `ifPossible` does. Throws for a file that the user may not read. */
async function* readable(
  files: AsyncIterable<PackedFile> | Iterable<PackedFile>,
  system: FileSystem,
): AsyncGenerator<PackedFile, void> {
  // Listing a directory checks the rights to it. A file with all read bits needs no check; any other is opened.
  const isOpenToAll = ({ mode }: PackedFile['stat']) => (Number(mode) & 0o444) === 0o444;
  const flags = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW;
  for await (const file of files) {
    const { path, stat } = file;
    if (stat.isSymbolicLink()) {
      const link = ifPossible(system, () => system.readlink(path));
      if (link !== undefined) yield { ...file, link };
    } else if (!stat.isFile() || stat.size === 0n || isOpenToAll(stat)) yield file;
    else if (ifPossible(system, () => closeSync(system.open(path, flags)) ?? true)) yield file;
  }
}

async function* below(
  folder: FilePath,
  names: readonly string[],
  prefix: string,
  system: FileSystem,
): AsyncGenerator<PackedFile, void> {
  const timeSlice = new TimeSlice();
  for (const each of names) {
    await timeSlice.yieldIfOver();
    const path = joined(folder, each);
    const name = prefix === '' ? each : `${prefix}/${each}`;
    const stat = ifPossible(system, () => system.findLink(path));
    if (!stat) continue;
    yield { path, name, stat };
    if (stat.isDirectory()) yield* below(path, await namesIfPossible(path, system), name, system);
  }
}

/** Returns no names for a directory that has vanished, or that even root may not read: it is empty in the archive. */
async function namesIfPossible(folder: FilePath, system: FileSystem): Promise<string[]> {
  try {
    return await namesIn(folder, system);
  } catch (error) {
    if (isLeftOut(error, system)) return [];
    throw error;
  }
}

async function* tarOf(
  files: AsyncIterable<PackedFile> | Iterable<PackedFile>,
  system: FileSystem,
): AsyncGenerator<Buffer, void> {
  for await (const file of files) {
    const { name, path, stat, link } = file;
    const common = {
      name,
      mode: Number(stat.mode) & 0o7777,
      size: 0,
      mtime: Number(stat.mtimeMs) / 1000,
      linkName: '',
    };
    if (stat.isDirectory()) yield writeTarHeader({ ...common, name: `${name}/`, flag: '5' });
    else if (link !== undefined) yield writeTarHeader({ ...common, flag: '2', linkName: link.toString('latin1') });
    else if (stat.isFile()) {
      const size = Number(stat.size);
      yield writeTarHeader({ ...common, flag: '0', size });
      yield* contentOf(path, size, system);
      yield Buffer.alloc(tarPadding(size));
    }
  }
  yield Buffer.alloc(2 * TAR_BLOCK_BYTES);
}
