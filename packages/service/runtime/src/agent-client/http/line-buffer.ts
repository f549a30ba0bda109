import { AgentError } from '../../driver/runtime-driver.ts';

const LINE_FEED = 0x0a;
/** Memory of a chunk besides its bytes: a peer may send single bytes. */
const CHUNK_OVERHEAD_BYTES = 256;
/** Pieces of a line that are joined if they are small. */
const MANY_PIECES = 256;
const SMALL_BYTES = 1024 * 1024;

/** Splits chunks into lines. Keeps the chunks without copying them. */
export class LineBuffer {
  readonly #maxLineBytes: number;
  /** Scanned pieces of the incomplete line, which have no line feed. */
  #pieces: Buffer[] = [];
  #pieceBytes = 0;
  /** How many of the pieces were looked at together, and their bytes. */
  #joinedPieces = 0;
  #joinedBytes = 0;
  /** Chunks not yet scanned, from `#at` of the first. */
  #chunks: Buffer[] = [];
  #at = 0;
  #bytes = 0;

  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes;
  }

  /** Bytes held in all. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Memory of the chunks that have not been scanned. */
  get aheadBytes(): number {
    return this.#bytes - this.#pieceBytes + this.#chunks.length * CHUNK_OVERHEAD_BYTES;
  }

  /** Bytes held of the incomplete line that have been scanned. */
  get partialBytes(): number {
    return this.#pieceBytes;
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
  }

  /**
   * Removes and returns the next complete line without its line feed, or undefined.
   *
   * @throws AgentError `misbehaved` before it holds much more than `maxLineBytes` of one line.
   */
  take(): string | undefined {
    for (let chunk = this.#chunks[0]; chunk !== undefined; chunk = this.#chunks[0]) {
      const end = chunk.indexOf(LINE_FEED, this.#at);
      const rest = (end === -1 ? chunk.length : end) - this.#at;
      if (this.#pieceBytes + rest > this.#maxLineBytes) {
        throw new AgentError('misbehaved', `The agent sent a line of more than ${this.#maxLineBytes} bytes.`);
      }
      if (end !== -1) return this.#cut(chunk, end);
      this.#pieces.push(this.#at === 0 ? chunk : chunk.subarray(this.#at));
      this.#pieceBytes += rest;
      if (this.#pieces.length - this.#joinedPieces > MANY_PIECES) this.#joinSmall();
      this.#next();
    }
    return undefined;
  }

  /** Removes and returns the incomplete line at the end of the data. */
  takeRest(): string {
    const rest = Buffer.concat(this.#pieces).toString('utf8');
    this.#forgetPieces();
    this.#bytes -= this.#pieceBytes;
    this.#pieceBytes = 0;
    return rest;
  }

  #cut(chunk: Buffer, end: number): string {
    const line = this.#pieceBytes === 0 ? chunk.toString('utf8', this.#at, end) : this.#join(chunk, end);
    this.#bytes -= this.#pieceBytes + end + 1 - this.#at;
    this.#pieceBytes = 0;
    this.#at = end + 1;
    if (this.#at === chunk.length) this.#next();
    return line;
  }

  #join(chunk: Buffer, end: number): string {
    this.#pieces.push(chunk.subarray(this.#at, end));
    const line = Buffer.concat(this.#pieces).toString('utf8');
    this.#forgetPieces();
    return line;
  }

  /** Joins the pieces since the last call, so that single bytes do not take a buffer each. Copies each byte once. */
  #joinSmall(): void {
    const isSmall = this.#pieceBytes - this.#joinedBytes < SMALL_BYTES;
    if (isSmall) this.#pieces.push(Buffer.concat(this.#pieces.splice(this.#joinedPieces)));
    this.#joinedPieces = this.#pieces.length;
    this.#joinedBytes = this.#pieceBytes;
  }

  #forgetPieces(): void {
    this.#pieces = [];
    this.#joinedPieces = 0;
    this.#joinedBytes = 0;
  }

  #next(): void {
    this.#chunks.shift();
    this.#at = 0;
  }
}

/**
 * Yields the lines of a stream of JSON texts, without their line feeds. Yields an empty line as an empty string.
 *
 * @throws AgentError as `LineBuffer.take` does.
 */
export async function* readLines(chunks: AsyncIterable<Buffer>, maxLineBytes: number): AsyncGenerator<string, void> {
  const lines = new LineBuffer(maxLineBytes);
  for await (const chunk of chunks) {
    lines.push(chunk);
    for (let line = lines.take(); line !== undefined; line = lines.take()) yield line;
  }
  if (lines.bytes > 0) yield lines.takeRest();
}
