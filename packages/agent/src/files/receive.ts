import { finished, type Readable } from 'node:stream';
import { QuickFile } from './quick-file.ts';

/** So much is gathered before it is written, while as much again is being written. */
const BATCH_BYTES = 1024 * 1024;

/**
 * Writes all that comes out of `source` to the file, from its beginning. Rejects if it breaks off.
 * @param sizeBytes so much memory is enough, where it is known.
 */
export function receive(source: Readable, fd: number, sizeBytes = BATCH_BYTES): Promise<void> {
  const file = new QuickFile(fd);
  const batchBytes = Math.max(1, Math.min(sizeBytes, BATCH_BYTES));
  return new Promise((resolve, reject) => {
    // Copied together: one call for each piece that a socket gives costs far more than moving it.
    let filling = Buffer.allocUnsafeSlow(batchBytes);
    let writing = Buffer.allocUnsafeSlow(batchBytes);
    let filled = 0;
    let position = 0;
    let isWriting = false;
    let hasEnded = false;
    /** What had no room while the other half was being written. */
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
    /** Goes on as far as it can without waiting. */
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
      // Paused streams may give what they have on their way.
      if (rest) rest = Buffer.concat([rest, chunk]);
      else take(chunk);
      advance();
    };
    source.on('data', onData);
    // Told of a source that had gone before as well: what waits for ever holds its file open.
    finished(source, { writable: false }, (error) => {
      if (error) return fail(new Error('the sender went away before it had sent everything', { cause: error }));
      hasEnded = true;
      advance();
    });
  });
}
