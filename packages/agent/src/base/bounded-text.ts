import { jsonBytes } from '@cloche/protocol';
import { incompleteTailBytes } from './incomplete-tail.ts';

/**
 * A stream's text up to a limit on its size as JSON, since that is what its readers hold. The head is kept; of the rest
 * only the size is known.
 */
export class BoundedText {
  readonly #name: string;
  readonly #limitBytes: number;
  /** The beginning of a character whose end is to come. */
  #torn: Buffer = Buffer.alloc(0);
  #keptBytes = 0;
  #cutBytes = 0;
  #endsWithNewline = true;

  /** @param limitBytes as JSON. */
  constructor(name: string, limitBytes: number) {
    this.#name = name;
    this.#limitBytes = limitBytes;
  }

  /** As they were printed. */
  get cutBytes(): number {
    return this.#cutBytes;
  }

  /** The text to pass on; empty once the limit is reached. Copies what it keeps of `bytes`. */
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

  /** What ends the text: a broken character, or the line that stands for what was cut. */
  end(): string {
    const broken = this.#take(this.#torn, this.#torn.length);
    this.#torn = Buffer.alloc(0);
    if (this.#cutBytes === 0) return broken;
    const line = `[cloche: ${this.#cutBytes} bytes of ${this.#name} cut; the limit is ${this.#limitBytes} bytes as JSON]\n`;
    return this.#endsWithNewline ? line : `\n${line}`;
  }

  /** The head of `all` that is not more than `wholeBytes` and fits; the rest counts as cut where it does not fit. */
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

/** The longest head of `all`, no longer than `wholeBytes`, that ends with a character and takes `room` bytes as JSON. */
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
