import { createHash } from 'node:crypto';
import { Transform } from 'node:stream';

/**
 * Passes a content through and verifies its digest. Holds the last chunk back, so that a damaged content fails before
 * its end.
 */
export class DigestCheck extends Transform {
  readonly #hash = createHash('sha256');
  readonly #sha256: string;
  readonly #sizeBytes: number;
  #seenBytes = 0;
  #held: Buffer | undefined;

  constructor(sha256: string, sizeBytes: number) {
    super();
    this.#sha256 = sha256;
    this.#sizeBytes = sizeBytes;
  }

  override _transform(chunk: Buffer, _: BufferEncoding, done: (error?: Error | null, data?: Buffer) => void): void {
    this.#hash.update(chunk);
    this.#seenBytes += chunk.length;
    const held = this.#held;
    this.#held = chunk;
    done(null, held);
  }

  override _flush(done: (error?: Error | null, data?: Buffer) => void): void {
    const isWhole = this.#seenBytes === this.#sizeBytes && this.#hash.digest('hex') === this.#sha256;
    if (isWhole) done(null, this.#held);
    else done(new Error(`the content ${this.#sha256} is damaged`));
  }
}
