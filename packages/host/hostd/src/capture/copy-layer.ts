/**
 * The worker thread of `copyRanges`: copies ranges of a device to the same offsets of a file, without blocks of zeros,
 * and sends their digest. Reads bytes and interprets none of them.
 */
import { createHash } from 'node:crypto';
import { fsyncSync, readSync, writeSync } from 'node:fs';
import { getPriority, setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import type { Copied, CopyOfRanges } from './copy-ranges.ts';

const CHUNK_BYTES = 1024 * 1024;
/** Size of a block. A block of zeros is not written, so it becomes a hole in the file. */
const BLOCK_BYTES = 64 * 1024;
/**
 * Bytes that are copied at normal priority. The thread then lowers its priority, so that the rest of a large layer
 * yields the processors to sandboxes.
 */
const PROMPT_BYTES = 32 * 1024 * 1024;
const NICENESS = 10;

const { ranges, deviceFd, imageFd } = workerData as CopyOfRanges;
const chunk = Buffer.alloc(CHUNK_BYTES);
const zeros = Buffer.alloc(BLOCK_BYTES);
const position = Buffer.alloc(8);
const hash = createHash('sha256');
let bytes = 0;

for (const { at: from, length } of ranges) {
  const end = from + length;
  for (let at = from; at < end; ) {
    const read = readSync(deviceFd, chunk, 0, Math.min(CHUNK_BYTES, end - at), at);
    if (read === 0) throw new Error(`the device ends at ${at}, before ${end}`);
    for (let inner = 0; inner < read; inner += BLOCK_BYTES) {
      const block = chunk.subarray(inner, Math.min(inner + BLOCK_BYTES, read));
      if (!block.equals(zeros.subarray(0, block.length))) keep(block, at + inner);
    }
    at += read;
  }
}
fsyncSync(imageFd);
parentPort?.postMessage({ digest: hash.digest('hex'), bytes } satisfies Copied);

function keep(block: Buffer, at: number): void {
  position.writeBigUInt64LE(BigInt(at));
  hash.update(position).update(block);
  for (let done = 0; done < block.length; ) done += writeSync(imageFd, block, done, block.length - done, at + done);
  // On Linux, 0 stands for the calling thread.
  if (bytes < PROMPT_BYTES && bytes + block.length >= PROMPT_BYTES) setPriority(0, Math.max(NICENESS, getPriority(0)));
  bytes += block.length;
}
