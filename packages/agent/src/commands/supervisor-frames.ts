const HEADER_BYTES = 5;
/** Of what is not output; the supervisor says little. */
const MAX_CONTROL_BYTES = 4096;
const OUTPUT = new Set(['O', 'E']);

/** A frame to the supervisor, as `supervise.pl` describes it. */
export function encodeSupervisorFrame(type: 'S' | 'I' | 'C' | 'R', body: Buffer): Buffer[] {
  const header = Buffer.alloc(HEADER_BYTES);
  header.write(type, 0, 'latin1');
  header.writeUInt32BE(body.length, 1);
  return [header, body];
}

/** Cuts what the supervisor sends into frames. Output is passed on as it comes, in as many pieces as it comes in. */
export class SupervisorFrames {
  readonly #onFrame: (type: string, body: Buffer) => void;
  #header = Buffer.alloc(0);
  #type = '';
  #left = 0;
  #control: Buffer[] = [];

  /** `body` is only valid during the call. */
  constructor(onFrame: (type: string, body: Buffer) => void) {
    this.#onFrame = onFrame;
  }

  /** Throws when a frame is none that a supervisor sends. */
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
    if (!OUTPUT.has(this.#type) && this.#left > MAX_CONTROL_BYTES) {
      throw new Error(`a frame ${this.#type} of ${this.#left} bytes`);
    }
    if (this.#left === 0) this.#onFrame(this.#type, Buffer.alloc(0));
    return joined.subarray(HEADER_BYTES);
  }

  #takeBody(chunk: Buffer): Buffer {
    const body = chunk.subarray(0, this.#left);
    this.#left -= body.length;
    if (OUTPUT.has(this.#type)) this.#onFrame(this.#type, body);
    else {
      this.#control.push(Buffer.from(body));
      if (this.#left === 0) this.#onFrame(this.#type, Buffer.concat(this.#control.splice(0)));
    }
    return chunk.subarray(body.length);
  }
}
