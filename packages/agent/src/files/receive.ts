import type { FileHandle } from 'node:fs/promises';
import type { Readable } from 'node:stream';

/** So much is gathered before it is written, while as much again is being written. */
const BATCH_BYTES = 1024 * 1024;

/** Writes all that comes out of `source` to `file`, from its beginning; the number of bytes. Rejects if it breaks off. */
export function receive(source: Readable, file: FileHandle): Promise<number> {
  return new Promise((resolve, reject) => {
    let batch: Buffer[] = [];
    let bytes = 0;
    let position = 0;
    let isWriting = false;
    let hasEnded = false;

    const flush = () => {
      const [chunks, at] = [batch, position];
      position += bytes;
      batch = [];
      bytes = 0;
      isWriting = true;
      writeAll(file, chunks, at).then(onWritten, fail);
    };
    const onWritten = () => {
      isWriting = false;
      if (bytes >= BATCH_BYTES || (hasEnded && bytes > 0)) flush();
      else if (hasEnded) resolve(position);
      source.resume();
    };
    const fail = (error: unknown) => {
      source.off('data', onData).off('end', onEnd);
      reject(error);
    };
    const onData = (chunk: Buffer) => {
      batch.push(chunk);
      bytes += chunk.length;
      if (bytes < BATCH_BYTES) return;
      if (isWriting) source.pause();
      else flush();
    };
    const onEnd = () => {
      hasEnded = true;
      if (isWriting) return;
      if (bytes > 0) flush();
      else resolve(position);
    };
    source.on('data', onData).once('end', onEnd).on('error', fail);
    source.once('close', () => {
      if (!hasEnded) fail(new Error('the sender went away before it had sent everything'));
    });
  });
}

/** A full disk takes a part first, and refuses the rest. */
async function writeAll(file: FileHandle, chunks: Buffer[], position: number): Promise<void> {
  let rest = chunks;
  for (let at = position; rest.length > 0; ) {
    const { bytesWritten } = await file.writev(rest, at);
    at += bytesWritten;
    rest = after(rest, bytesWritten);
  }
}

function after(chunks: Buffer[], bytes: number): Buffer[] {
  let left = bytes;
  for (const [index, chunk] of chunks.entries()) {
    if (left < chunk.length) return [chunk.subarray(left), ...chunks.slice(index + 1)];
    left -= chunk.length;
  }
  return [];
}
