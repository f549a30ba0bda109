import { BoundedText } from '../base/bounded-text.ts';
import type { StandardStream } from '../base/standard-stream.ts';

/** Length from which a captured piece is no longer extended. A piece becomes one line of the result. */
const PIECE_CHARACTERS = 64 * 1024;

/** The beginning of one stream, kept until the result is requested. */
export class CapturedText {
  pieces: string[] = [];
  readonly #name: StandardStream;
  readonly #text: BoundedText;
  #printedBytes = 0;
  /** Size of `pieces`, in characters. */
  bytes = 0;
  #isReleased = false;

  constructor(name: StandardStream, limitBytes: number) {
    this.#name = name;
    this.#text = new BoundedText(name, limitBytes);
  }

  get cutBytes(): number {
    return this.#isReleased ? this.#printedBytes : this.#text.cutBytes;
  }

  /** Drops the text of an ended command and leaves a line that says so. Idempotent. */
  release(): void {
    if (this.bytes === 0) return;
    this.#isReleased = true;
    this.bytes = 0;
    this.pieces = [`[cloche: ${this.#printedBytes} bytes of ${this.#name} are no longer kept here; read the log]\n`];
  }

  push(bytes: Buffer): void {
    this.#printedBytes += bytes.length;
    this.#add(this.#text.push(bytes));
  }

  end(): void {
    this.#add(this.#text.end());
  }

  #add(text: string): void {
    if (text === '') return;
    const last = this.pieces.length - 1;
    // Small pieces are joined, so that many of them take no more memory than their text.
    if ((this.pieces[last]?.length ?? PIECE_CHARACTERS) < PIECE_CHARACTERS) this.pieces[last] += text;
    else this.pieces.push(text);
    this.bytes += text.length;
  }
}
