/** Returns the number of bytes at the end that begin a character without completing it. */
export function incompleteTailBytes(bytes: Buffer): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0b1100_0000) === 0b1000_0000) continue;
    return characterBytes(byte) > back ? back : 0;
  }
  return 0;
}

function characterBytes(firstByte: number): number {
  if (firstByte >= 0xf8) return 1;
  if (firstByte >= 0xf0) return 4;
  if (firstByte >= 0xe0) return 3;
  if (firstByte >= 0xc0) return 2;
  return 1;
}
