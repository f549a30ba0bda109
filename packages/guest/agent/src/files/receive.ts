import { finished, type Readable } from 'node:stream';
import { AdaptiveFile } from './adaptive-file.ts';

/** Bytes of a batch. One batch is filled while another is written. */
const BATCH_BYTES = 1024 * 1024;

/**
 * Writes everything from `source` to the file, from its beginning. Rejects if the transfer breaks off.
 * @param sizeBytes size of the content, if it is known. A small size saves memory.
 */
export function receive(source: Readable, fd: number, sizeBytes = BATCH_BYTES): Promise<void> {
  const file = new AdaptiveFile(fd);
  const batchBytes = Math.max(1, Math.min(sizeBytes, BATCH_BYTES));
  return new Promise((resolve, reject) => {
    // Pieces are copied together, because a write for each piece of a socket costs far more than the copy.
    let filling = Buffer.allocUnsafeSlow(batchBytes);
    let writing = Buffer.allocUnsafeSlow(batchBytes);
    let filled = 0;
    let position = 0;
    let isWriting = false;
    let hasEnded = false;
    /** Bytes that did not fit into the batch while the other one was written. */
    let rest: Buffer | undefined;

    const flush = () => {
      [filling, writing] = [writing, filling];
      isWriting = true;
      file.write(writing, filled, position).then(onWritten, fail);
      position += filled;
      filled = 0;
    };
    const take = (chunk: Buffer) => {
      const copied = chunk.copy(filling, filled);
      filled += copied;
      rest = copied < chunk.length ? chunk.subarray(copied) : undefined;
    };
    /** Writes as much as possible without waiting. */
    const advance = () => {
      while (!isWriting && (filled === batchBytes || (hasEnded && filled > 0))) {
        flush();
        if (rest) take(rest);
      }
      if (filled === batchBytes) source.pause();
      else if (hasEnded && !isWriting) resolve();
    };
    const onWritten = () => {
      isWriting = false;
      advance();
      if (!rest) source.resume();
    };
    const fail = (error: unknown) => {
      source.off('data', onData);
      reject(error);
    };
    const onData = (chunk: Buffer) => {
      // A paused stream can still emit chunks that it has already read.
      if (rest) rest = Buffer.concat([rest, chunk]);
      else take(chunk);
      advance();
    };
    source.on('data', onData);
    // Also fails for a source that had closed before, because waiting for it would keep the file open for ever.
    finished(source, { writable: false }, (error) => {
      if (error) return fail(new Error('the sender went away before it had sent everything', { cause: error }));
      hasEnded = true;
      advance();
    });
  });
}
