import { pipeline, Readable } from 'node:stream';
import * as zlib from 'node:zlib';

// Node.js before 22.15 has no zstd, which is faster than gzip and compresses better.
const hasZstd = typeof zlib.createZstdCompress === 'function';
/** Favours speed over size, because the archive is sent once. */
const GZIP_LEVEL = 3;

export const compressedFormat = hasZstd ? 'tar.zst' : 'tar.gz';

/** Compresses bytes as `compressedFormat`. Ends with the error of the source if it fails. */
export function compress(source: AsyncIterable<Buffer>): AsyncIterable<Buffer> {
  const compressor = hasZstd ? zlib.createZstdCompress() : zlib.createGzip({ level: GZIP_LEVEL });
  // An error reaches the reader of the compressor, which it destroys.
  pipeline(Readable.from(source, { objectMode: false }), compressor, () => undefined);
  return compressor;
}
