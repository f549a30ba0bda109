import { Utf8Stream } from './utf8-stream.ts';

/** A stream's text up to a limit. The head is kept; of the rest only the size is known. */
export class BoundedText {
  readonly #name: string;
  readonly #limitBytes: number;
  readonly #decoder = new Utf8Stream();
  #keptBytes = 0;
  #cutBytes = 0;
  #endsWithNewline = true;

  constructor(name: string, limitBytes: number) {
    this.#name = name;
    this.#limitBytes = limitBytes;
  }

  get cutBytes(): number {
    return this.#cutBytes;
  }

  /** The text to pass on; empty once the limit is reached. */
  push(bytes: Buffer): string {
    const room = this.#cutBytes > 0 ? 0 : this.#limitBytes - this.#keptBytes;
    const head = bytes.subarray(0, room);
    this.#keptBytes += head.length;
    const text = head.length === 0 ? '' : this.#decoder.push(head);
    if (head.length < bytes.length) this.#cut(bytes.length - head.length);
    if (text !== '') this.#endsWithNewline = text.endsWith('\n');
    return text;
  }

  /** What ends the text: a broken character, or the line that stands for what was cut. */
  end(): string {
    if (this.#cutBytes === 0) return this.#decoder.end();
    const line = `[cloche: ${this.#cutBytes} bytes of ${this.#name} cut, the limit is ${this.#limitBytes} bytes]\n`;
    return this.#endsWithNewline ? line : `\n${line}`;
  }

  #cut(bytes: number): void {
    // A character that the limit divides is cut as a whole.
    if (this.#cutBytes === 0) this.#cutBytes += this.#decoder.pendingBytes;
    this.#cutBytes += bytes;
  }
}
