import { bindLibc, checked, SyscallError } from './libc.ts';

const lseekCall = bindLibc('int64_t lseek(int fd, int64_t offset, int whence)');
const SEEK_DATA = 3;
const SEEK_HOLE = 4;

/** Returns the written parts of a sparse file, in order; `to` is the first byte after a part. */
export function dataRanges(fd: number): { from: number; to: number }[] {
  const ranges: { from: number; to: number }[] = [];
  for (let at = 0; ; ) {
    try {
      const from = checked(Number(lseekCall(fd, at, SEEK_DATA)), 'lseek', 'SEEK_DATA');
      const to = checked(Number(lseekCall(fd, from, SEEK_HOLE)), 'lseek', 'SEEK_HOLE');
      ranges.push({ from, to });
      at = to;
    } catch (error) {
      // Only a hole is left up to the end.
      if (error instanceof SyscallError && error.code === 'ENXIO') return ranges;
      throw error;
    }
  }
}
