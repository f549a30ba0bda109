/**
 * Reads a stream to its end. Returns undefined, and ends the stream, once it has more than `mostBytes`: the size that a
 * guest or a client has announced before decides nothing.
 */
export async function bytesUpTo(mostBytes: number, stream: AsyncIterable<Uint8Array>): Promise<Buffer | undefined> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > mostBytes) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, bytes);
}
