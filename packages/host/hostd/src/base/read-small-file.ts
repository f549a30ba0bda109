import { closeSync, openSync, readSync } from 'node:fs';

/** Shared by all reads. No file of a control group or a network link is larger. */
const buffer = Buffer.alloc(16 * 1024);

/**
 * Returns the beginning of a file of `/proc` or `/sys`. Half as expensive as `readFileSync`: one read, no allocation.
 */
export function readSmallFile(path: string): string {
  const fd = openSync(path, 'r');
  try {
    return buffer.toString('latin1', 0, readSync(fd, buffer, 0, buffer.length, 0));
  } finally {
    closeSync(fd);
  }
}
