import { parsePlainJson } from '@cloche/node-support';
import { MAX_KERNEL_FRAME_BYTES } from '@cloche/protocol';

const LENGTH_BYTES = 4;
/** Most values in one message. An output of JSON can have many; these fit into the agent's share of the memory. */
const MAX_VALUES = 1_000_000;
/** Most levels of a message. Values are written as JSON again, which fails from some 3,000. */
const MAX_DEPTH = 1_000;

/** Returns a message as a frame: its length in 4 big-endian bytes, then its JSON. */
export function encodeFrame(message: unknown): Buffer {
  const text = JSON.stringify(message);
  const body = Buffer.byteLength(text);
  const frame = Buffer.allocUnsafe(LENGTH_BYTES + body);
  frame.writeUInt32BE(body);
  frame.write(text, LENGTH_BYTES);
  return frame;
}

/** Splits a kernel's bytes into messages. The kernel is untrusted, so length and JSON are checked. */
export class FrameDecoder {
  #chunks: Buffer[] = [];
  #bytes = 0;
  #bodyBytes: number | undefined;

  /** Adds received bytes. Keeps `chunk` without copying it. */
  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
  }

  /** Returns the next complete message, or undefined. Throws if a frame is too large or not JSON. */
  take(): { message: unknown } | undefined {
    if (this.#bodyBytes === undefined) {
      if (this.#bytes < LENGTH_BYTES) return undefined;
      const length = this.#cut(LENGTH_BYTES).readUInt32BE();
      if (length > MAX_KERNEL_FRAME_BYTES) throw new Error(`a frame of ${length} bytes is too large`);
      this.#bodyBytes = length;
    }
    if (this.#bytes < this.#bodyBytes) return undefined;
    const body = this.#cut(this.#bodyBytes);
    this.#bodyBytes = undefined;
    return { message: parsePlainJson(body.toString(), MAX_VALUES, MAX_DEPTH) };
  }

  #cut(length: number): Buffer {
    const first = this.#chunks[0];
    const joined = first !== undefined && first.length >= length ? first : Buffer.concat(this.#chunks, this.#bytes);
    this.#chunks = joined === first ? this.#chunks.slice(1) : [];
    if (joined.length > length) this.#chunks.unshift(joined.subarray(length));
    this.#bytes -= length;
    return joined.subarray(0, length);
  }
}
