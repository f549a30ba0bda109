import { ImageError } from '../read/image-error.ts';

/** An answer of a registry. Its body must be read to its end, or the answer be closed. */
export class RegistryReply {
  readonly status: number;
  readonly headers: Headers;
  /** Where the answer is from, for messages. */
  readonly url: URL;
  readonly #response: Response;
  readonly #abort: AbortController;
  readonly #idleMs: number;

  /** @param idleMs longest time without a byte of the body */
  constructor(response: Response, url: URL, abort: AbortController, idleMs: number) {
    this.status = response.status;
    this.headers = response.headers;
    this.url = url;
    this.#response = response;
    this.#abort = abort;
    this.#idleMs = idleMs;
  }

  /** Yields the body. Rejects when the connection is lost or stands still. */
  async *chunks(): AsyncGenerator<Uint8Array, void> {
    const { body } = this.#response;
    if (!body) return;
    const timer = setTimeout(() => this.close(), this.#idleMs);
    try {
      for await (const chunk of body) {
        yield chunk as Uint8Array;
        timer.refresh();
      }
    } finally {
      clearTimeout(timer);
      this.close();
    }
  }

  /** Reads a small body. @throws {ImageError} if it is larger than `maxBytes`. */
  async bytes(maxBytes: number): Promise<Buffer> {
    const chunks: Uint8Array[] = [];
    let sizeBytes = 0;
    for await (const chunk of this.chunks()) {
      sizeBytes += chunk.length;
      if (sizeBytes > maxBytes)
        throw new ImageError(`${this.url.host} sends more than ${maxBytes} bytes for ${this.url.pathname}.`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  }

  close(): void {
    this.#abort.abort();
  }
}
