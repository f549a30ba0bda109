import { close } from 'node:fs';

/**
 * Closes a descriptor in a thread of Node.js's pool, which frees the blocks of a deleted file. Without a callback,
 * Node.js would throw an error of the system, such as that of a broken disk, as an uncaught exception.
 */
export function closeLater(fd: number): void {
  close(fd, () => undefined);
}
