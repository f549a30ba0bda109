import { lstat, readlink } from 'node:fs/promises';
import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { TAR_BLOCK_BYTES, tarPadding, writeTarHeader } from '@cloche/protocol';
import { onFile } from '../files/file-fault.ts';
import { bytesOf, type FilePath, joined } from '../files/file-path.ts';
import { namesIn } from '../files/list-files.ts';
import { contentOf, ignoreGone, type PackedFile } from './packed-file.ts';
import { zipOf } from './write-zip.ts';

export const ARCHIVE_FORMATS = ['tar', 'tar.gz', 'zip'] as const;
export type ArchiveFormat = (typeof ARCHIVE_FORMATS)[number];

/** Quick rather than small: it travels once. */
const GZIP_LEVEL = 3;
const CHUNK_BYTES = 256 * 1024;

/**
 * An archive of the file or folder at `path`; of a folder, its content without a name above it. Pipes, sockets and devices
 * are left out. Throws before the first byte when there is nothing at `path`.
 */
export async function pack(path: FilePath, format: ArchiveFormat): Promise<Readable> {
  const stat = await onFile(path, () => lstat(bytesOf(path), { bigint: true }));
  const files = stat.isDirectory() ? below(path, '') : [{ path, name: posix.basename(path), stat }];
  if (format === 'zip') return zipOf(files);
  const tar = Readable.from(tarOf(files), { objectMode: false, highWaterMark: CHUNK_BYTES });
  if (format === 'tar') return tar;
  // Loaded by those who need it: an idle sandbox does not pay for it.
  const gzip = process.getBuiltinModule('node:zlib').createGzip({ level: GZIP_LEVEL, chunkSize: 64 * 1024 });
  tar.on('error', (error) => gzip.destroy(error));
  // Whoever reads it is told; a failure after that is nobody's.
  gzip.on('error', () => undefined);
  gzip.on('close', () => tar.destroy());
  return tar.pipe(gzip);
}

async function* below(folder: FilePath, prefix: string): AsyncGenerator<PackedFile, void> {
  for (const each of await namesIn(folder)) {
    const path = joined(folder, each);
    const name = prefix === '' ? each : `${prefix}/${each}`;
    const stat = await lstat(bytesOf(path), { bigint: true }).catch(ignoreGone);
    if (!stat) continue;
    yield { path, name, stat };
    if (stat.isDirectory()) yield* below(path, name);
  }
}

async function* tarOf(files: AsyncIterable<PackedFile> | Iterable<PackedFile>): AsyncGenerator<Buffer, void> {
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
      const linkName = (await readlink(bytesOf(path), 'buffer')).toString('latin1');
      yield writeTarHeader({ ...common, flag: '2', linkName });
    } else if (stat.isFile()) {
      const size = Number(stat.size);
      yield writeTarHeader({ ...common, flag: '0', size });
      yield* contentOf(path, size);
      yield Buffer.alloc(tarPadding(size));
    }
  }
  yield Buffer.alloc(2 * TAR_BLOCK_BYTES);
}
