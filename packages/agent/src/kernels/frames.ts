import { parsePlainJson } from '@cloche/node-support';
import { MAX_KERNEL_FRAME_BYTES } from '@cloche/protocol';

const LENGTH_BYTES = 4;
/** An output of JSON may have many; these fit into the agent's share of the memory. */
const MAX_VALUES = 1_000_000;

/** A message as a frame: its length in 4 big-endian bytes, then its JSON. */
export function encodeFrame(message: unknown): Buffer {
  const text = JSON.stringify(message);
  const body = Buffer.byteLength(text);
  const frame = Buffer.allocUnsafe(LENGTH_BYTES + body);
  frame.writeUInt32BE(body);
  frame.write(text, LENGTH_BYTES);
  return frame;
}

/** Cuts what a kernel sends into messages. It trusts nothing: not the length, not the JSON. */
export class FrameDecoder {
  #chunks: Buffer[] = [];
  #bytes = 0;
  #bodyBytes: number | undefined;

  /** Keeps `chunk` without copying it. */
  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
  }

  /** The next whole message. Throws when a frame is too large or holds no JSON. */
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
    return { message: parsePlainJson(body.toString(), MAX_VALUES) };
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
