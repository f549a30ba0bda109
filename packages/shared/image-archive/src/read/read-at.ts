import { closeSync, openSync, readSync } from 'node:fs';

/** Returns up to `sizeBytes` bytes of a file from `offset` on: fewer where it ends earlier. */
export function readAt(path: string, sizeBytes: number, offset: number): Buffer {
  const bytes = Buffer.alloc(sizeBytes);
  const fd = openSync(path, 'r');
  try {
    return bytes.subarray(0, readSync(fd, bytes, 0, sizeBytes, offset));
  } finally {
    closeSync(fd);
  }
}
