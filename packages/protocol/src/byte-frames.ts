/**
 * Frames of bytes, which commands and terminals travel in: one byte that says what it is, the length of the rest in four
 * big-endian bytes, the rest. Without schemas, so that the agent's bundle need not carry the library.
 */
const HEADER_BYTES = 5;
/** Of what is not the bytes of a stream. */
const MAX_CONTROL_BYTES = 4096;
/** Input, output and errors: passed on as they come. */
const STREAMS = new Set(['I', 'O', 'E']);

/** The parts of a frame, to be written one after the other. */
export function encodeByteFrame(type: string, body: Buffer): [Buffer, Buffer] {
  const header = Buffer.alloc(HEADER_BYTES);
  header.write(type, 0, 'latin1');
  header.writeUInt32BE(body.length, 1);
  return [header, body];
}

/** Cuts bytes into frames. Those of streams are passed on as they come, in as many pieces as they come in. */
export class ByteFrames {
  readonly #onFrame: (type: string, body: Buffer) => void;
  #header = Buffer.alloc(0);
  #type = '';
  #left = 0;
  #control: Buffer[] = [];

  /** `body` is only valid during the call. */
  constructor(onFrame: (type: string, body: Buffer) => void) {
    this.#onFrame = onFrame;
  }

  /** Throws when a frame that is no stream's is too large. */
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
      throw new Error(`a frame ${this.#type} of ${this.#left} bytes`);
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
