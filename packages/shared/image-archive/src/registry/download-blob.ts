import { createHash, type Hash } from 'node:crypto';
import { type FileHandle, open } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { ImageError } from '../read/image-error.ts';
import type { DownloadWatch } from './pull-progress.ts';
import type { RegistryClient } from './registry-client.ts';
import type { RegistryReply } from './registry-reply.ts';

/** Connections for one blob, so that a registry that cuts each off after a byte ends. */
const MAX_CONNECTIONS = 100;

/** Digest and size in bytes of a blob, as its manifest names them. */
export interface BlobDescriptor {
  readonly digest: string;
  readonly size: number;
}

/**
 * Downloads a blob to a new file. Goes on where a connection was cut off.
 *
 * @throws {ImageError} if the bytes are not those that the manifest names, or after too many attempts in vain
 */
export async function downloadBlob(
  client: RegistryClient,
  blob: BlobDescriptor,
  path: string,
  watch?: DownloadWatch,
): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    const download = new Download(file, blob, watch);
    let inVain = 0;
    for (let connections = 1; !download.isComplete; connections += 1) {
      const before = download.bytes;
      await download.resume(client);
      inVain = download.bytes > before ? 0 : inVain + 1;
      if (download.isComplete) break;
      if (inVain >= client.times.attempts || connections >= MAX_CONNECTIONS) throw download.cutOff(client.name);
      watch?.cutOff(download.bytes);
      await pause(Math.min(client.times.pauseMs * 2 ** inVain, client.times.longestPauseMs));
    }
    download.requireDigest();
  } finally {
    await file.close();
  }
}

class Download {
  bytes = 0;
  readonly #file: FileHandle;
  readonly #blob: BlobDescriptor;
  readonly #algorithm: string;
  readonly #watch: DownloadWatch | undefined;
  #hash: Hash;

  constructor(file: FileHandle, blob: BlobDescriptor, watch: DownloadWatch | undefined) {
    this.#file = file;
    this.#blob = blob;
    this.#watch = watch;
    this.#algorithm = blob.digest.slice(0, blob.digest.indexOf(':'));
    this.#hash = createHash(this.#algorithm);
  }

  get isComplete(): boolean {
    return this.bytes === this.#blob.size;
  }

  /** Takes what one connection brings. Returns when it ends, also by a fault of the network. */
  async resume(client: RegistryClient): Promise<void> {
    const { digest } = this.#blob;
    const fields = this.bytes > 0 ? { range: `bytes=${this.bytes}-` } : {};
    const reply = await client.request(`blobs/${digest}`, { fields });
    if (reply.status === 416) {
      reply.close();
      throw this.cutOff(client.name);
    }
    let skip = await this.#bytesToSkip(reply);
    const chunks = reply.chunks();
    for (;;) {
      const next = await chunks.next().catch(() => undefined);
      // The next connection requests the rest.
      if (!next || next.done) return;
      const chunk = next.value.subarray(Math.min(skip, next.value.length));
      skip -= next.value.length - chunk.length;
      await this.#add(chunk, reply);
    }
  }

  requireDigest(): void {
    const actual = `${this.#algorithm}:${this.#hash.digest('hex')}`;
    if (actual !== this.#blob.digest)
      throw new ImageError(`The registry sends other bytes for ${this.#blob.digest}: their digest is ${actual}.`);
  }

  cutOff(image: string): ImageError {
    const { digest, size } = this.#blob;
    return new ImageError(`The registry ends ${digest} of ${image} after ${this.bytes} of ${size} bytes.`);
  }

  /** Returns how many bytes of the answer are there already: none where the registry continues. */
  async #bytesToSkip({ status, headers }: RegistryReply): Promise<number> {
    if (status !== 206) return this.bytes;
    const [, first] = /^bytes (\d+)-/.exec(headers.get('content-range') ?? '') ?? [];
    if (Number(first) === this.bytes) return 0;
    throw new ImageError(`The registry answers with another part of ${this.#blob.digest} than it was asked for.`);
  }

  async #add(chunk: Uint8Array, reply: RegistryReply): Promise<void> {
    const { digest, size } = this.#blob;
    if (this.bytes + chunk.length > size) {
      reply.close();
      throw new ImageError(`The registry sends more bytes for ${digest} than the ${size} that the manifest names.`);
    }
    this.#hash.update(chunk);
    for (let written = 0; written < chunk.length; )
      written += (await this.#file.write(chunk, written, chunk.length - written, this.bytes + written)).bytesWritten;
    this.bytes += chunk.length;
    this.#watch?.grew(this.bytes);
  }
}
