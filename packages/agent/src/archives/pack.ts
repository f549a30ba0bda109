import { closeSync, constants } from 'node:fs';
import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { TAR_BLOCK_BYTES, tarPadding, writeTarHeader } from '@cloche/protocol';
import { onFile } from '../files/file-fault.ts';
import { type FilePath, joined } from '../files/file-path.ts';
import type { FileSystem } from '../files/file-system.ts';
import { namesIn } from '../files/list-files.ts';
import { Pace } from '../files/pace.ts';
import { contentOf, type PackedFile, whereThere } from './packed-file.ts';
import { zipOf } from './write-zip.ts';

export const ARCHIVE_FORMATS = ['tar', 'tar.gz', 'zip'] as const;
export type ArchiveFormat = (typeof ARCHIVE_FORMATS)[number];

/** Quick rather than small: it travels once. */
const GZIP_LEVEL = 3;
const CHUNK_BYTES = 256 * 1024;

/**
 * An archive of the file or folder at `path`; of a folder, its content without a name above it. Pipes, sockets and devices
 * are left out. Throws before the first byte when there is nothing at `path`, or something that the user may not read.
 */
export async function pack(path: FilePath, format: ArchiveFormat, system: FileSystem): Promise<Readable> {
  const stat = onFile(path, () => system.lstat(path));
  const files = () => (stat.isDirectory() ? below(path, '', system) : [{ path, name: posix.basename(path), stat }]);
  await requireReadable(files(), system);
  if (format === 'zip') return zipOf(files(), system);
  const tar = Readable.from(tarOf(files(), system), { objectMode: false, highWaterMark: CHUNK_BYTES });
  if (format === 'tar') return tar;
  // Loaded by those who need it: an idle sandbox does not pay for it.
  const gzip = process.getBuiltinModule('node:zlib').createGzip({ level: GZIP_LEVEL, chunkSize: 64 * 1024 });
  tar.on('error', (error) => gzip.destroy(error));
  // Whoever reads it is told; a failure after that is nobody's.
  gzip.on('error', () => undefined);
  gzip.on('close', () => tar.destroy());
  return tar.pipe(gzip);
}

/** Once an answer has begun, a refusal could only break it off. */
async function requireReadable(
  files: AsyncIterable<PackedFile> | Iterable<PackedFile>,
  system: FileSystem,
): Promise<void> {
  // Directories are read on the way. Most files say in their mode that they can be read; the system knows of the others.
  const isOpenToAll = ({ mode }: PackedFile['stat']) => (Number(mode) & 0o444) === 0o444;
  for await (const { path, stat } of files) {
    if (!stat.isFile() || stat.size === 0n || isOpenToAll(stat)) continue;
    whereThere(() => closeSync(system.open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)));
  }
}

async function* below(folder: FilePath, prefix: string, system: FileSystem): AsyncGenerator<PackedFile, void> {
  const pace = new Pace();
  for (const each of await namesIn(folder, system)) {
    await pace.step();
    const path = joined(folder, each);
    const name = prefix === '' ? each : `${prefix}/${each}`;
    const stat = system.findLink(path);
    if (!stat) continue;
    yield { path, name, stat };
    if (stat.isDirectory()) yield* below(path, name, system);
  }
}

async function* tarOf(
  files: AsyncIterable<PackedFile> | Iterable<PackedFile>,
  system: FileSystem,
): AsyncGenerator<Buffer, void> {
  for await (const file of files) {
    const { name, path, stat } = file;
    const common = {
      name,
      mode: Number(stat.mode) & 0o7777,
      size: 0,
      mtime: Number(stat.mtimeMs) / 1000,
      linkName: '',
    };
    if (stat.isDirectory()) yield writeTarHeader({ ...common, name: `${name}/`, flag: '5' });
    else if (stat.isSymbolicLink()) {
      yield writeTarHeader({ ...common, flag: '2', linkName: system.readlink(path).toString('latin1') });
    } else if (stat.isFile()) {
      const size = Number(stat.size);
      yield writeTarHeader({ ...common, flag: '0', size });
      yield* contentOf(path, size, system);
      yield Buffer.alloc(tarPadding(size));
    }
  }
  yield Buffer.alloc(2 * TAR_BLOCK_BYTES);
}
