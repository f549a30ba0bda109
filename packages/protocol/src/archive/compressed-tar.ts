import { PassThrough, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type ArchiveEntry, invalidArchive } from './archive-entry.ts';
import { readTar } from './read-tar.ts';

export type TarCompression = 'none' | 'gzip' | 'zstd';

/** Returns what an archive is by its first bytes. Anything unknown counts as a tar, whose reader then refuses it. */
export function detectArchive(first: Buffer): TarCompression | 'zip' {
  if (first.toString('latin1', 0, 2) === 'PK') return 'zip';
  if (first[0] === 0x1f && first[1] === 0x8b) return 'gzip';
  return first.length >= 4 && first.readUInt32LE(0) === 0xfd2fb528 ? 'zstd' : 'none';
}

/**
 * Yields the entries of a tar, decompressed. Throws `bad_archive`. Destroys `source` when it ends before the source
 * does.
 */
export async function* readCompressedTar(
  source: Readable,
  compression: TarCompression,
): AsyncGenerator<ArchiveEntry, void> {
  const plain = decompressor(compression);
  // The decompressor can report corrupt data after the pipeline has removed its listeners.
  plain.on('error', () => undefined);
  const broken = pipeline(source, plain).catch((error: unknown) => error);
  try {
    yield* readTar(plain);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    throw /^(Z_|ZSTD_|ERR_ZSTD)/.test(code) ? invalidArchive('its compressed data is corrupt') : error;
  } finally {
    plain.destroy();
    await broken;
  }
}

function decompressor(compression: TarCompression) {
  // Loaded on first use, to save memory in an idle sandbox.
  if (compression === 'gzip') return process.getBuiltinModule('node:zlib').createGunzip();
  if (compression === 'zstd') return process.getBuiltinModule('node:zlib').createZstdDecompress();
  return new PassThrough();
}
