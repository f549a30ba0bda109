import { createHash } from 'node:crypto';
import { PassThrough } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { detectArchive } from '@cloche/archive';
import { ImageError } from '../read/image-error.ts';
import type { ImageFiles } from '../read/image-files.ts';
import type { ImageLayer } from '../read/read-image.ts';

/** The tar of a layer, decompressed, with the digests of what was read. */
export class LayerStream {
  plainBytes = 0;
  readonly #layer: ImageLayer;
  readonly #maxBytes: number;
  readonly #packed;
  readonly #plain;
  readonly #decompressor;
  readonly #feeding: Promise<void>;

  /** @param maxBytes limit of the decompressed bytes */
  constructor(archive: ImageFiles, layer: ImageLayer, maxBytes: number) {
    this.#layer = layer;
    this.#maxBytes = maxBytes;
    this.#packed = createHash(algorithmOf(layer.digest ?? layer.diffId));
    this.#plain = createHash(algorithmOf(layer.diffId));
    const kind = detectArchive(archive.firstBytes(layer.name));
    this.#decompressor =
      kind === 'gzip' ? createGunzip() : kind === 'zstd' ? createZstdDecompress() : new PassThrough();
    const count = (chunks: AsyncIterable<Buffer>) => counted(chunks, (chunk) => this.#packed.update(chunk));
    this.#feeding = pipeline(archive.stream(layer.name), count, this.#decompressor);
    // The reader of the decompressor gets the error too.
    this.#feeding.catch(() => undefined);
  }

  /** Yields the tar. @throws {ImageError} at the limit. */
  chunks(): AsyncGenerator<Buffer, void> {
    return counted(this.#decompressor as AsyncIterable<Buffer>, (chunk) => {
      this.plainBytes += chunk.length;
      if (this.plainBytes > this.#maxBytes)
        throw new ImageError(`it has more than ${this.#maxBytes} bytes when it is decompressed`);
      this.#plain.update(chunk);
    });
  }

  /** Checks the digests of what was read, which is everything if the tar is complete. @throws {ImageError} */
  async requireDigests(): Promise<void> {
    await this.#feeding;
    const { digest, diffId } = this.#layer;
    const packed = `${algorithmOf(digest ?? diffId)}:${this.#packed.digest('hex')}`;
    if (digest !== undefined && packed !== digest)
      throw new ImageError(`its digest is ${packed}, and the manifest names ${digest}`);
    const plain = `${algorithmOf(diffId)}:${this.#plain.digest('hex')}`;
    if (plain !== diffId)
      throw new ImageError(`the digest of its tar is ${plain}, and the configuration names ${diffId}`);
  }

  close(): void {
    this.#decompressor.destroy();
  }
}

async function* counted(chunks: AsyncIterable<Buffer>, count: (chunk: Buffer) => void): AsyncGenerator<Buffer, void> {
  for await (const chunk of chunks) {
    count(chunk);
    yield chunk;
  }
}

function algorithmOf(digest: string): string {
  return digest.slice(0, digest.indexOf(':'));
}
