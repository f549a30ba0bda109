import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type ArchiveEntry, invalidArchive } from './archive-entry.ts';
import { readTarGroups } from './read-tar.ts';

export type TarCompression = 'none' | 'gzip' | 'zstd';

/**
 * Detects the format of an archive by its first bytes. Anything unknown counts as a tar; the tar reader then refuses
 * it.
 */
export function detectArchive(first: Buffer): TarCompression | 'zip' {
  if (first.toString('latin1', 0, 2) === 'PK') return 'zip';
  if (first[0] === 0x1f && first[1] === 0x8b) return 'gzip';
  return first.length >= 4 && first.readUInt32LE(0) === 0xfd2fb528 ? 'zstd' : 'none';
}

/** Decompressed bytes that are parsed at a time. */
const CHUNK_BYTES = 128 * 1024;

/**
 * Yields the entries of a tar, decompressed. Throws `bad_archive`. Destroys `source` when it ends before the source
 * does.
 */
export async function* readCompressedTar(
  source: Readable,
  compression: TarCompression,
): AsyncGenerator<ArchiveEntry, void> {
  for await (const group of readCompressedTarGroups(source, compression)) yield* group;
}

/** Does what `readCompressedTar` does, in groups, as `readTarGroups`. */
export async function* readCompressedTarGroups(
  source: Readable,
  compression: TarCompression,
): AsyncGenerator<readonly ArchiveEntry[], void> {
  if (compression === 'none') return yield* readTarGroups(source);
  const plain = decompressor(compression);
  // The decompressor can report corrupt data after the pipeline has removed its listeners.
  plain.on('error', () => undefined);
  const broken = pipeline(source, plain).catch((error: unknown) => error);
  try {
    yield* readTarGroups(plain);
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    throw /^(Z_|ZSTD_|ERR_ZSTD)/.test(code) ? invalidArchive('its compressed data is corrupt') : error;
  } finally {
    plain.destroy();
    await broken;
  }
}

function decompressor(compression: 'gzip' | 'zstd') {
  // Loaded on first use, to save memory in an idle sandbox.
  const zlib = process.getBuiltinModule('node:zlib');
  const options = { chunkSize: CHUNK_BYTES };
  return compression === 'gzip' ? zlib.createGunzip(options) : zlib.createZstdDecompress(options);
}
