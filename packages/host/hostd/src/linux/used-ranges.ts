import { setImmediate } from 'node:timers/promises';
import { bindLibc, checked } from './libc.ts';

const ioctlCall = bindLibc('int ioctl(int fd, ulong request, void *argument)');

/** `_IOWR('X', 59, struct fsmap_head)` */
const FS_IOC_GETFSMAP = 0xc0c0583b;
const HEAD_BYTES = 64;
const RECORD_BYTES = 64;
const RECORDS_AT = HEAD_BYTES + 2 * RECORD_BYTES;
const RECORDS_PER_CALL = 4096;
const COUNT_AT = 8;
const ENTRIES_AT = 12;
const FMR_OF_SPECIAL_OWNER = 0x10;
const FMR_OF_LAST = 0x20;
const FMR_OWN_FREE = 1n;

/** A part of a device, in bytes. */
export interface ByteRange {
  at: number;
  length: number;
}

/**
 * Returns the free parts of its device, in order, as a mounted ext4 file system reports them. The kernel reads them
 * from its maps of free blocks, so no file or folder is visited.
 *
 * @param fd any file or folder of the file system
 * @throws RangeError for more than `maxRanges` parts
 */
export async function freeRanges(fd: number, maxRanges: number): Promise<ByteRange[]> {
  const ranges: ByteRange[] = [];
  const buffer = Buffer.alloc(RECORDS_AT + RECORDS_PER_CALL * RECORD_BYTES);
  buffer.writeUInt32LE(RECORDS_PER_CALL, COUNT_AT);
  // The upper key: the end of the last device. The lower key is 0.
  buffer.fill(0xff, HEAD_BYTES + RECORD_BYTES, HEAD_BYTES + RECORD_BYTES + 40);
  for (;;) {
    checked(ioctlCall(fd, FS_IOC_GETFSMAP, buffer), 'ioctl', 'FS_IOC_GETFSMAP');
    const entries = buffer.readUInt32LE(ENTRIES_AT);
    for (let index = 0; index < entries; index += 1) {
      const record = RECORDS_AT + index * RECORD_BYTES;
      if (isFree(buffer, record)) {
        ranges.push({
          at: Number(buffer.readBigUInt64LE(record + 8)),
          length: Number(buffer.readBigUInt64LE(record + 32)),
        });
      }
    }
    if (ranges.length > maxRanges) throw new RangeError(`the free space is in more than ${maxRanges} parts`);
    if (entries === 0) return ranges;
    const last = RECORDS_AT + (entries - 1) * RECORD_BYTES;
    if (buffer.readUInt32LE(last + 4) & FMR_OF_LAST) return ranges;
    await setImmediate();
    // The last record becomes the lower key of the next call.
    buffer.copy(buffer, HEAD_BYTES, last, last + RECORD_BYTES);
  }
}

/**
 * Returns what is left of `bytes` without the free ranges. Some kernels leave used blocks out of their report, so what
 * is not reported as free counts as used.
 */
export function withoutRanges(bytes: number, free: readonly ByteRange[]): ByteRange[] {
  const used: ByteRange[] = [];
  let at = 0;
  for (const { at: from, length } of [...free, { at: bytes, length: 0 }]) {
    if (from > at) used.push({ at, length: from - at });
    at = from + length;
  }
  return used;
}

export function sumOf(ranges: readonly ByteRange[]): number {
  return ranges.reduce((sum, { length }) => sum + length, 0);
}

function isFree(records: Buffer, record: number): boolean {
  const isSpecial = (records.readUInt32LE(record + 4) & FMR_OF_SPECIAL_OWNER) !== 0;
  return isSpecial && records.readBigUInt64LE(record + 16) === FMR_OWN_FREE;
}
