/** Bytes of output kept for new clients: about one screen and a few pages of history. */
const TAIL_BYTES = 128 * 1024;

/** The latest output of a terminal. */
export class ScreenTail {
  #pieces: Buffer[] = [];
  #bytes = 0;

  /** The kept output, from the start of a line if possible, so that no escape sequence is cut. */
  get bytes(): Buffer {
    const all = Buffer.concat(this.#pieces);
    if (all.length <= TAIL_BYTES) return all;
    const tail = all.subarray(all.length - TAIL_BYTES);
    return tail.subarray(tail.indexOf(0x0a) + 1);
  }

  /** Appends output. Copies `bytes`. */
  push(bytes: Buffer): void {
    this.#pieces.push(Buffer.from(bytes));
    this.#bytes += bytes.length;
    // Joins the pieces from time to time, so that many small ones take no more memory than their bytes.
    if (this.#bytes <= 2 * TAIL_BYTES && this.#pieces.length < 1024) return;
    const tail = Buffer.concat(this.#pieces).subarray(-TAIL_BYTES - 1);
    this.#pieces = [tail];
    this.#bytes = tail.length;
  }
}
