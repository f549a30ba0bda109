/**
 * Counts down the announced bytes of a body that is read past Node's HTTP parser, which would do so. Bytes beyond them
 * are dropped.
 */
export class RemainingBytes {
  #count: number;

  constructor(sizeBytes: number) {
    this.#count = sizeBytes;
  }

  /** Number of bytes still to come. */
  get count(): number {
    return this.#count;
  }

  /** Returns those of the read bytes that were announced. */
  take(read: Buffer): Buffer {
    const bytes = read.length > this.#count ? read.subarray(0, this.#count) : read;
    this.#count -= bytes.length;
    return bytes;
  }
}
