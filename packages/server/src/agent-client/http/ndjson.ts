const LINE_FEED = 0x0a;

/** Memory account for the incomplete line. */
export interface LineMemory {
  /**
   * Requests `bytes` more. Returns undefined when there is room already, else a promise that resolves when there is.
   */
  hold(bytes: number): Promise<void> | undefined;
  /** Frees the memory once the line is complete. */
  release(): void;
}

/**
 * Yields the lines of a stream of JSON texts, without their line feeds. Yields an empty line as an empty string.
 *
 * @throws LineTooLongError before it holds more than `maxLineBytes` of one line.
 */
export async function* readLines(
  chunks: AsyncIterable<Buffer>,
  maxLineBytes: number,
  lineMemory?: LineMemory,
): AsyncGenerator<string, void> {
  let pending: Buffer[] = [];
  let pendingBytes = 0;
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
      if (pendingBytes + end - start > maxLineBytes) throw new LineTooLongError(maxLineBytes);
      if (pendingBytes === 0) yield chunk.toString('utf8', start, end);
      else {
        pending.push(chunk.subarray(start, end));
        const line = Buffer.concat(pending).toString('utf8');
        pending = [];
        pendingBytes = 0;
        lineMemory?.release();
        yield line;
      }
      start = end + 1;
    }
    if (start === chunk.length) continue;
    pending.push(start === 0 ? chunk : chunk.subarray(start));
    pendingBytes += chunk.length - start;
    if (pendingBytes > maxLineBytes) throw new LineTooLongError(maxLineBytes);
    const waiting = lineMemory?.hold(chunk.length - start);
    if (waiting) await waiting;
  }
  if (pendingBytes > 0) yield Buffer.concat(pending).toString('utf8');
}

export class LineTooLongError extends Error {
  override readonly name = 'LineTooLongError';

  constructor(maxLineBytes: number) {
    super(`a line of more than ${maxLineBytes} bytes`);
  }
}
