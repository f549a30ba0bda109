/** About what a screen shows and a few pages above. */
const TAIL_BYTES = 128 * 1024;

/** The latest output of a terminal. */
export class ScreenTail {
  #pieces: Buffer[] = [];
  #bytes = 0;

  /** From the beginning of a line where there is one, so that no escape sequence is cut. */
  get bytes(): Buffer {
    const all = Buffer.concat(this.#pieces);
    if (all.length <= TAIL_BYTES) return all;
    const tail = all.subarray(all.length - TAIL_BYTES);
    return tail.subarray(tail.indexOf(0x0a) + 1);
  }

  /** Copies `bytes`. */
  push(bytes: Buffer): void {
    this.#pieces.push(Buffer.from(bytes));
    this.#bytes += bytes.length;
    // Joined now and then, so that a flood of tiny pieces weighs no more than its bytes.
    if (this.#bytes <= 2 * TAIL_BYTES && this.#pieces.length < 1024) return;
    const tail = Buffer.concat(this.#pieces).subarray(-TAIL_BYTES - 1);
    this.#pieces = [tail];
    this.#bytes = tail.length;
  }
}
