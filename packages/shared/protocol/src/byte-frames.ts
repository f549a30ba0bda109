/**
 * Frames of bytes for commands and terminals: one byte for the type, four big-endian bytes for the length of the body,
 * then the body. No schemas, so that the agent's bundle need not carry the schema library.
 */
const HEADER_BYTES = 5;
/** Limit of a frame that is not stream data. */
const MAX_CONTROL_BYTES = 4096;
/** Types of stream data (input, output, errors), passed on as it arrives. */
const STREAMS = new Set(['I', 'O', 'E']);

/** Returns header and body of a frame, to be written in this order. */
export function encodeByteFrame(type: string, body: Buffer): [Buffer, Buffer] {
  const header = Buffer.alloc(HEADER_BYTES);
  header.write(type, 0, 'latin1');
  header.writeUInt32BE(body.length, 1);
  return [header, body];
}

/** Splits bytes into frames. Stream data is passed on as it arrives, in as many pieces. */
export class ByteFrames {
  readonly #onFrame: (type: string, body: Buffer) => void;
  #header = Buffer.alloc(0);
  #type = '';
  #left = 0;
  #control: Buffer[] = [];

  /** @param onFrame called with each frame or piece; `body` is valid only during the call */
  constructor(onFrame: (type: string, body: Buffer) => void) {
    this.#onFrame = onFrame;
  }

  /** Reads a chunk. Throws when a frame that is not stream data is too large. */
  push(chunk: Buffer): void {
    let rest = chunk;
    while (rest.length > 0) rest = this.#left === 0 ? this.#takeHeader(rest) : this.#takeBody(rest);
  }

  #takeHeader(chunk: Buffer): Buffer {
    const joined = this.#header.length === 0 ? chunk : Buffer.concat([this.#header, chunk]);
    if (joined.length < HEADER_BYTES) {
      this.#header = Buffer.from(joined);
      return Buffer.alloc(0);
    }
    this.#header = Buffer.alloc(0);
    this.#type = joined.toString('latin1', 0, 1);
    this.#left = joined.readUInt32BE(1);
    if (!STREAMS.has(this.#type) && this.#left > MAX_CONTROL_BYTES) {
      throw new Error(`the frame of type ${this.#type} has ${this.#left} bytes, more than allowed`);
    }
    if (this.#left === 0) this.#onFrame(this.#type, Buffer.alloc(0));
    return joined.subarray(HEADER_BYTES);
  }

  #takeBody(chunk: Buffer): Buffer {
    const body = chunk.subarray(0, this.#left);
    this.#left -= body.length;
    if (STREAMS.has(this.#type)) this.#onFrame(this.#type, body);
    else {
      this.#control.push(Buffer.from(body));
      if (this.#left === 0) this.#onFrame(this.#type, Buffer.concat(this.#control.splice(0)));
    }
    return chunk.subarray(body.length);
  }
}
