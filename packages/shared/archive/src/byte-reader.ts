import { type InvalidArchiveError, invalidArchive } from './archive-entry.ts';

const NOTHING = Buffer.alloc(0);

/**
 * Reads a stream by lengths, without waiting for bytes that have arrived. The memory of a chunk of the stream need only
 * be valid until the next chunk is requested.
 */
export class ByteReader {
  readonly #chunks: AsyncIterator<Uint8Array>;
  /** Bytes from before `#rest`, copied. */
  #front: Buffer = NOTHING;
  /** The unread rest of the last chunk. */
  #rest: Buffer = NOTHING;
  /** Bytes to skip that have not arrived. */
  #toSkip = 0;
  /** Bytes that were read or skipped so far. */
  position = 0;

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#chunks = source[Symbol.asyncIterator]();
  }

  /** Whether no byte has arrived that is not read. */
  get isEmpty(): boolean {
    return this.#front.length + this.#rest.length === 0;
  }

  has(length: number): boolean {
    return this.#front.length + this.#rest.length >= length;
  }

  /** Returns the next bytes, which have arrived, without reading them. */
  peek(length: number): Buffer {
    if (this.#front.length === 0) return this.#rest.subarray(0, length);
    const missing = length - this.#front.length;
    if (missing > 0) {
      this.#front = Buffer.concat([this.#front, this.#rest.subarray(0, missing)]);
      this.#rest = this.#rest.subarray(missing);
    }
    return this.#front.subarray(0, length);
  }

  /** Reads the next bytes, which have arrived. They are valid until the next wait. */
  read(length: number): Buffer {
    const bytes = this.peek(length);
    if (this.#front.length > 0) this.#front = this.#front.subarray(length);
    else this.#rest = this.#rest.subarray(length);
    this.position += length;
    return bytes;
  }

  /** Skips the next bytes, now or when they arrive. */
  skip(length: number): void {
    const arrived = Math.min(length, this.#front.length + this.#rest.length);
    const ofFront = Math.min(arrived, this.#front.length);
    this.#front = this.#front.subarray(ofFront);
    this.#rest = this.#rest.subarray(arrived - ofFront);
    this.#toSkip += length - arrived;
    this.position += length;
  }

  /** Waits until `length` bytes have arrived. Resolves with false if the stream ends before. */
  async fill(length: number): Promise<boolean> {
    if (this.has(length)) return true;
    const parts = [this.#front, Buffer.from(this.#rest)];
    let bytes = this.#front.length + this.#rest.length;
    this.#rest = NOTHING;
    for (;;) {
      const chunk = await this.#next();
      if (chunk && bytes + chunk.length < length) {
        parts.push(Buffer.from(chunk));
        bytes += chunk.length;
        continue;
      }
      this.#front = Buffer.concat(parts);
      this.#rest = chunk ?? NOTHING;
      return chunk !== undefined;
    }
  }

  /**
   * Returns the next `length` bytes in pieces, each valid until the next one is requested. A second iteration continues
   * where the first one stopped. Throws `bad_archive` when the stream ends before.
   */
  take(length: number): AsyncIterable<Buffer> {
    let left = length;
    const next = async () => {
      if (left === 0) return undefined;
      const part = await this.#upTo(left);
      if (!part) throw brokenOff();
      left -= part.length;
      return part;
    };
    return {
      async *[Symbol.asyncIterator]() {
        for (let part = await next(); part; part = await next()) yield part;
      },
    };
  }

  /** Skips at most `length` bytes and returns how many there were. */
  async skipUpTo(length: number): Promise<number> {
    const from = this.position;
    for (let left = length; left > 0; left = length - (this.position - from)) {
      if (!(await this.#upTo(left))) break;
    }
    return this.position - from;
  }

  async #upTo(most: number): Promise<Buffer | undefined> {
    if (this.isEmpty) this.#rest = (await this.#next()) ?? NOTHING;
    const arrived = this.#front.length > 0 ? this.#front.length : this.#rest.length;
    return arrived === 0 ? undefined : this.read(Math.min(arrived, most));
  }

  /** Returns the next chunk without the bytes that must be skipped; undefined at the end. */
  async #next(): Promise<Buffer | undefined> {
    for (;;) {
      const { done, value } = await this.#chunks.next();
      if (done && this.#toSkip > 0) throw brokenOff();
      if (done) return undefined;
      const skipped = Math.min(this.#toSkip, value.byteLength);
      this.#toSkip -= skipped;
      if (skipped < value.byteLength) {
        return Buffer.from(value.buffer, value.byteOffset + skipped, value.byteLength - skipped);
      }
    }
  }
}

export function brokenOff(): InvalidArchiveError {
  return invalidArchive('it ends before its last entry is complete');
}
