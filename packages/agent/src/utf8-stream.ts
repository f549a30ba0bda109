/**
 * Turns chunks of bytes into text without breaking a character that two chunks share. What is no UTF-8 becomes U+FFFD.
 */
export class Utf8Stream {
  #tail: Buffer = Buffer.alloc(0);

  /** Bytes held back until the rest of their character comes. */
  get pendingBytes(): number {
    return this.#tail.length;
  }

  /** Copies what it keeps of `bytes`. */
  push(bytes: Buffer): string {
    const all = this.#tail.length === 0 ? bytes : Buffer.concat([this.#tail, bytes]);
    const whole = all.length - incompleteTailBytes(all);
    this.#tail = Buffer.from(all.subarray(whole));
    return all.toString('utf8', 0, whole);
  }

  /** What is left when nothing more comes. */
  end(): string {
    const text = this.#tail.toString('utf8');
    this.#tail = Buffer.alloc(0);
    return text;
  }
}

/** How many bytes at the end are the beginning of a character. */
export function incompleteTailBytes(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0b1100_0000) === 0b1000_0000) continue;
    return characterBytes(byte) > back ? back : 0;
  }
  return 0;
}

function characterBytes(firstByte: number): number {
  if (firstByte >= 0xf0 && firstByte < 0xf8) return 4;
  if (firstByte >= 0xe0) return 3;
  if (firstByte >= 0xc0) return 2;
  return 1;
}
