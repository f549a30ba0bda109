import type { Readable } from 'node:stream';
import { Code, ConnectError } from '@connectrpc/connect';

/** Flags of a frame, and the length of its message. */
const HEAD_BYTES = 5;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN: ReadonlySet<number> = new Set([0x5b, 0x7b]);
const CLOSE: ReadonlySet<number> = new Set([0x5d, 0x7d]);
const COMMA = 0x2c;

export interface JsonBounds {
  readonly values: number;
  readonly depth: number;
}

/**
 * Passes the bytes of a stream of Connect on. Throws at a frame whose JSON has too many values or levels, before Connect
 * parses it.
 */
export async function* boundedFrames(body: Readable, bounds: JsonBounds): AsyncGenerator<Uint8Array, void> {
  const frames = new FrameBounds(bounds);
  // A destroyed request would end the connection, which carries the answer.
  for await (const bytes of body.iterator({ destroyOnReturn: false })) {
    frames.take(bytes as Uint8Array);
    yield bytes as Uint8Array;
  }
}

/** Passes on a whole message without frames. @throws ConnectError as `boundedFrames` does, at once */
export function boundedMessage(bytes: Uint8Array, bounds: JsonBounds): AsyncIterable<Uint8Array> {
  new FrameBounds(bounds, bytes.length).take(bytes);
  return (async function* () {
    yield bytes;
  })();
}

class FrameBounds {
  readonly #bounds: JsonBounds;
  /** Bytes of the current head that have arrived. */
  #head = 0;
  #length = 0;
  /** Bytes of the current message that have not arrived. */
  #left: number;
  #values = 0;
  #depth = 0;
  #isInString = false;
  #isEscaped = false;

  /** @param left bytes of a first message without a head */
  constructor(bounds: JsonBounds, left = 0) {
    this.#left = left;
    this.#bounds = bounds;
  }

  take(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; ) {
      if (this.#left === 0) {
        this.#takeHead(bytes[at] ?? 0);
        at += 1;
        continue;
      }
      const end = Math.min(bytes.length, at + this.#left);
      this.#left -= end - at;
      for (; at < end; at += 1) this.#takeByte(bytes[at] ?? 0);
    }
  }

  #takeHead(byte: number): void {
    this.#length = this.#head === 0 ? 0 : this.#length * 256 + byte;
    this.#head += 1;
    if (this.#head < HEAD_BYTES) return;
    this.#left = this.#length;
    this.#head = this.#values = this.#depth = 0;
    this.#isInString = this.#isEscaped = false;
  }

  #takeByte(byte: number): void {
    if (this.#isInString) {
      if (this.#isEscaped) this.#isEscaped = false;
      else if (byte === BACKSLASH) this.#isEscaped = true;
      else if (byte === QUOTE) this.#isInString = false;
    } else if (byte === QUOTE) this.#isInString = true;
    else if (CLOSE.has(byte)) this.#depth -= 1;
    else if (byte === COMMA) this.#values += 1;
    else if (OPEN.has(byte)) {
      this.#values += 1;
      this.#depth += 1;
    } else return;
    if (this.#values <= this.#bounds.values && this.#depth <= this.#bounds.depth) return;
    throw new ConnectError('A message has too many values, or is nested too deeply.', Code.InvalidArgument);
  }
}
