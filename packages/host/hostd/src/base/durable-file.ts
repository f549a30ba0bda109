import { closeSync, fsyncSync, openSync, writeFileSync } from 'node:fs';

/** Writes a file that is on the disk when this returns. Its folder may not be: see `syncFolder`. */
export function writeDurably(path: string, text: string): void {
  writeFileSync(path, text, { mode: 0o600, flush: true });
}

/** Writes the names in a folder to the disk. */
export function syncFolder(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
