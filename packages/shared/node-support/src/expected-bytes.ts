/**
 * Counts down the announced bytes of a body that is read past Node's HTTP parser, which would do so. Bytes beyond them
 * are dropped.
 */
export class ExpectedBytes {
  #left: number;

  constructor(sizeBytes: number) {
    this.#left = sizeBytes;
  }

  /** Number of bytes still to come. */
  get left(): number {
    return this.#left;
  }

  /** Returns those of the read bytes that were announced. */
  take(read: Buffer): Buffer {
    const bytes = read.length > this.#left ? read.subarray(0, this.#left) : read;
    this.#left -= bytes.length;
    return bytes;
  }
}
