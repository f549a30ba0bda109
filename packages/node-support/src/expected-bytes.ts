/** Counts down what was announced. What follows it belongs to nobody. */
export class ExpectedBytes {
  #left: number;

  constructor(sizeBytes: number) {
    this.#left = sizeBytes;
  }

  /** How many are still to come. */
  get left(): number {
    return this.#left;
  }

  /** Those of `read` that were announced. */
  take(read: Buffer): Buffer {
    const bytes = read.length > this.#left ? read.subarray(0, this.#left) : read;
    this.#left -= bytes.length;
    return bytes;
  }
}
