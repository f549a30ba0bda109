/**
 * Started by hostd, with the ranges to copy on standard input: for each, its offset and its length, 8 bytes each. Copies
 * them from descriptor 3 to the same offsets of descriptor 4, without blocks of zeros, and prints their digest. Reads
 * bytes and interprets none of them.
 */
import { createHash } from 'node:crypto';
import { fsyncSync, readFileSync, readSync, writeSync } from 'node:fs';

const DEVICE_FD = 3;
const IMAGE_FD = 4;
const CHUNK_BYTES = 1024 * 1024;
/** Smallest hole that is kept. */
const BLOCK_BYTES = 64 * 1024;

const ranges = readFileSync(0);
const chunk = Buffer.alloc(CHUNK_BYTES);
const zeros = Buffer.alloc(BLOCK_BYTES);
const position = Buffer.alloc(8);
const hash = createHash('sha256');
let bytes = 0;

for (let record = 0; record < ranges.length; record += 16) {
  const from = Number(ranges.readBigUInt64LE(record));
  const end = from + Number(ranges.readBigUInt64LE(record + 8));
  for (let at = from; at < end; ) {
    const read = readSync(DEVICE_FD, chunk, 0, Math.min(CHUNK_BYTES, end - at), at);
    if (read === 0) throw new Error(`the device ends at ${at}, before ${end}`);
    for (let inner = 0; inner < read; inner += BLOCK_BYTES) {
      const block = chunk.subarray(inner, Math.min(inner + BLOCK_BYTES, read));
      if (!block.equals(zeros.subarray(0, block.length))) keep(block, at + inner);
    }
    at += read;
  }
}
fsyncSync(IMAGE_FD);
process.stdout.write(JSON.stringify({ digest: hash.digest('hex'), bytes }));

function keep(block: Buffer, at: number): void {
  position.writeBigUInt64LE(BigInt(at));
  hash.update(position).update(block);
  for (let done = 0; done < block.length; ) done += writeSync(IMAGE_FD, block, done, block.length - done, at + done);
  bytes += block.length;
}
