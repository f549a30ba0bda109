import { jsonBytes } from '@cloche/node-support';
import { incompleteTailBytes } from './incomplete-tail.ts';

/**
 * Keeps the beginning of a stream's text, up to a limit on its size as JSON, because readers hold the text as JSON.
 * Counts the bytes after the limit without keeping them.
 */
export class BoundedText {
  readonly #name: string;
  readonly #limitBytes: number;
  /** First bytes of a character that is not complete yet. */
  #torn: Buffer = Buffer.alloc(0);
  #keptBytes = 0;
  #cutBytes = 0;
  #endsWithNewline = true;

  /** @param limitBytes size as JSON. */
  constructor(name: string, limitBytes: number) {
    this.#name = name;
    this.#limitBytes = limitBytes;
  }

  /** Bytes of output that were cut, not counting JSON escapes. */
  get cutBytes(): number {
    return this.#cutBytes;
  }

  /** Returns the text to pass on, empty once the limit is reached. Copies what it keeps of `bytes`. */
  push(bytes: Buffer): string {
    if (this.#cutBytes > 0) {
      this.#cutBytes += bytes.length;
      return '';
    }
    const all = this.#torn.length === 0 ? bytes : Buffer.concat([this.#torn, bytes]);
    const whole = all.length - incompleteTailBytes(all);
    const text = this.#take(all, whole);
    this.#torn = this.#cutBytes > 0 ? Buffer.alloc(0) : Buffer.from(all.subarray(whole));
    return text;
  }

  /** Returns the end of the text: an incomplete character, or the line that says how much was cut. */
  end(): string {
    const broken = this.#take(this.#torn, this.#torn.length);
    this.#torn = Buffer.alloc(0);
    if (this.#cutBytes === 0) return broken;
    const line = `[cloche: ${this.#cutBytes} bytes of ${this.#name} cut; the limit is ${this.#limitBytes} bytes as JSON]\n`;
    return this.#endsWithNewline ? line : `\n${line}`;
  }

  /**
   * Returns the beginning of `all` that fits, at most `wholeBytes`. If it does not fit whole, counts the rest as cut.
   */
  #take(all: Buffer, wholeBytes: number): string {
    const room = this.#limitBytes - this.#keptBytes;
    let text = all.toString('utf8', 0, wholeBytes);
    let size = jsonBytes(text);
    if (size > room) {
      const head = fittingBytes(all, wholeBytes, room);
      text = all.toString('utf8', 0, head);
      size = jsonBytes(text);
      this.#cutBytes = all.length - head;
    }
    this.#keptBytes += size;
    if (text !== '') this.#endsWithNewline = text.endsWith('\n');
    return text;
  }
}

/**
 * Returns the length of the longest prefix of whole characters, at most `wholeBytes`, that fits `room` bytes as JSON.
 */
function fittingBytes(all: Buffer, wholeBytes: number, room: number): number {
  let [fits, tooLong] = [0, wholeBytes];
  while (tooLong - fits > 1) {
    const middle = (fits + tooLong) >>> 1;
    if (jsonBytes(all.toString('utf8', 0, wholeCharacters(all, middle))) <= room) fits = middle;
    else tooLong = middle;
  }
  return wholeCharacters(all, fits);
}

function wholeCharacters(all: Buffer, bytes: number): number {
  return bytes - incompleteTailBytes(all.subarray(0, bytes));
}
