import { InvalidArchiveError, readTar, refusedEntry } from '@cloche/archive';
import type { ImageConfig } from '../read/image-config.ts';
import { ImageError } from '../read/image-error.ts';
import type { ImageFiles } from '../read/image-files.ts';
import { readImage } from '../read/read-image.ts';
import { applyLayer, type UnpackCounts } from './apply-layer.ts';
import { LayerStream } from './layer-stream.ts';
import { RootFolder } from './root-folder.ts';

export interface UnpackLimits {
  /** Entries of all layers together. */
  readonly maxEntries: number;
  /** Bytes of all layers together, decompressed. */
  readonly maxBytes: number;
}

export interface UnpackedImage extends UnpackCounts {
  readonly layers: number;
  readonly config: ImageConfig;
}

/**
 * Unpacks an untrusted image into an empty folder, as root. Checks every digest. After a failure the folder is
 * incomplete and must not be used.
 *
 * @throws {ImageError} that names the layer and the entry.
 */
export async function unpackImage(archive: ImageFiles, folder: string, limits: UnpackLimits): Promise<UnpackedImage> {
  const { config, layers } = readImage(archive);
  const root = new RootFolder(folder);
  const counts: UnpackCounts = { entries: 0, sizeBytes: 0 };
  let bytesLeft = limits.maxBytes;
  for (const [index, layer] of layers.entries()) {
    const stream = new LayerStream(archive, layer, bytesLeft);
    try {
      await applyLayer(readTar(stream.chunks(), { onSpecial: skipDevice }), root, counts, limits.maxEntries);
      await stream.requireDigests();
    } catch (error) {
      throw explained(error, `Layer ${index + 1} of the image (${layer.diffId.slice(0, 19)}…) cannot be unpacked`);
    } finally {
      stream.close();
    }
    bytesLeft -= stream.plainBytes;
  }
  return { ...counts, layers: layers.length, config };
}

/** Leaves out devices in `/dev`, which every sandbox has of its own. Throws `bad_archive` for others. */
function skipDevice(name: string): void {
  if (!/^[./]*dev\/[^/]/.test(name)) throw refusedEntry(name, 'is a device or a pipe');
}

function explained(error: unknown, title: string): unknown {
  if (error instanceof ImageError || error instanceof InvalidArchiveError)
    return new ImageError(`${title}: ${error.message}.`);
  const { code = '' } = error as NodeJS.ErrnoException;
  if (/^(Z_|ZSTD_|ERR_ZSTD)/.test(code)) return new ImageError(`${title}: its compressed data is corrupt.`);
  if (code === 'ENOSPC')
    return new ImageError(`${title}: the disk of the build is full; give it a larger one by resources.diskMb.`);
  if (code === 'ENAMETOOLONG') return new ImageError(`${title}: it has a path that is too long.`);
  return error;
}
