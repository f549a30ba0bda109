import { createReadStream, createWriteStream } from 'node:fs';
import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import * as zlib from 'node:zlib';
import { detectArchive, InvalidArchiveError, readTar, type TarCompression } from '@cloche/archive';
import { ImageError } from './image-error.ts';
import type { ImageFiles } from './image-files.ts';
import { readAt } from './read-at.ts';

/** Entries of the archive itself: a few for each layer. */
const MAX_ENTRIES = 10_000;
const MAX_LINKS = 8;

interface Place {
  readonly offset: number;
  readonly sizeBytes: number;
}

/** The files of an image archive on the disk, by their names. */
export class ArchiveFile implements ImageFiles {
  readonly #path: string;
  readonly #places: ReadonlyMap<string, Place | string>;

  private constructor(path: string, places: ReadonlyMap<string, Place | string>) {
    this.#path = path;
    this.#places = places;
  }

  /**
   * Lists the archive. One that is compressed as a whole is first decompressed to `spool`, of at most `maxBytes`.
   *
   * @throws {ImageError} if it is no tar.
   */
  static async open(path: string, spool: string, maxBytes: number): Promise<ArchiveFile> {
    const kind = detectArchive(readAt(path, 4, 0));
    if (kind === 'zip')
      throw new ImageError('The image archive is a zip; create it with `docker save` or as an oci-archive.');
    if (kind !== 'none') await decompress(path, kind, spool, maxBytes);
    const plain = kind === 'none' ? path : spool;
    try {
      return new ArchiveFile(plain, await listPlaces(plain));
    } catch (error) {
      if (!(error instanceof InvalidArchiveError)) throw error;
      throw new ImageError(`The image archive is not a complete tar: ${error.message}.`);
    }
  }

  has(name: string): boolean {
    return this.#find(name) !== undefined;
  }

  sizeOf(name: string): number | undefined {
    return this.#find(name)?.sizeBytes;
  }

  stream(name: string): Readable {
    const { offset, sizeBytes } = this.#get(name);
    return sizeBytes === 0
      ? Readable.from([])
      : // Its reader learns of an error, also of one before it reads.
        createReadStream(this.#path, { start: offset, end: offset + sizeBytes - 1 }).on('error', () => undefined);
  }

  read(name: string, maxBytes: number): Buffer {
    const { offset, sizeBytes } = this.#get(name);
    if (sizeBytes > maxBytes) throw new ImageError(`${name} of the image archive is larger than ${maxBytes} bytes.`);
    return readAt(this.#path, sizeBytes, offset);
  }

  firstBytes(name: string): Buffer {
    const { offset, sizeBytes } = this.#get(name);
    return readAt(this.#path, Math.min(sizeBytes, 4), offset);
  }

  #get(name: string): Place {
    const place = this.#find(name);
    if (!place) throw new ImageError(`The image archive has no file ${JSON.stringify(name)}.`);
    return place;
  }

  /** Follows links, by which older versions of `docker save` store equal layers once. */
  #find(name: string): Place | undefined {
    let at = name;
    for (let links = 0; links <= MAX_LINKS; links++) {
      const place = this.#places.get(at);
      if (typeof place !== 'string') return place;
      at = place;
    }
    return undefined;
  }
}

async function listPlaces(path: string): Promise<Map<string, Place | string>> {
  const places = new Map<string, Place | string>();
  for await (const { name, type, target, contentOffset = 0, sizeBytes } of readTar(createReadStream(path))) {
    if (places.size >= MAX_ENTRIES) throw new ImageError(`The image archive has more than ${MAX_ENTRIES} files.`);
    const at = posix.normalize(name).replace(/^(\.?\/)+/, '');
    if (type === 'file') places.set(at, { offset: contentOffset, sizeBytes });
    else if (type === 'symlink') places.set(at, posix.join(posix.dirname(at), target));
    else if (type === 'hardlink') places.set(at, posix.normalize(target).replace(/^(\.?\/)+/, ''));
  }
  return places;
}

async function decompress(
  path: string,
  kind: Exclude<TarCompression, 'none'>,
  spool: string,
  maxBytes: number,
): Promise<void> {
  let left = maxBytes;
  const bound = async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      left -= chunk.length;
      if (left < 0) throw new ImageError(`The image archive is larger than ${maxBytes} bytes when it is decompressed.`);
      yield chunk;
    }
  };
  // The command line also runs on Node.js before 22.15, which has no zstd.
  if (kind === 'zstd' && typeof zlib.createZstdDecompress !== 'function') {
    throw new ImageError(
      'The image archive is compressed with zstd, which needs Node.js 22.15 or newer; decompress it.',
    );
  }
  const decompressor = kind === 'gzip' ? zlib.createGunzip() : zlib.createZstdDecompress();
  try {
    await pipeline(createReadStream(path), decompressor, bound, createWriteStream(spool, { mode: 0o600 }));
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    throw /^(Z_|ZSTD_|ERR_ZSTD)/.test(code)
      ? new ImageError('The compressed data of the image archive is corrupt.')
      : error;
  }
}
