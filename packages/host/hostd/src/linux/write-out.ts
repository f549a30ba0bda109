import { closeSync, openSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { bindLibc } from './libc.ts';

const syncfsCall = bindLibc('int syncfs(int fd)');
const ioctlCall = bindLibc('int ioctl(int fd, ulong request, void *argument)');

/** `_IOWR('X', 121, struct fstrim_range)` */
const FITRIM = 0xc018_5879;
const RANGE_BYTES = 24;
const LENGTH_AT = 8;

/** Resolves when all that was written to a mounted file system so far is on its device. Runs off the main thread. */
export async function syncFileSystem(dir: string): Promise<void> {
  const result = await onFolder(dir, (fd, settle) => syncfsCall.async(fd, settle));
  if (result < 0) throw new Error(`syncfs ${dir} failed`);
}

/**
 * Gives the unused parts of a mounted file system back to its device, which makes holes in the file of a loop device.
 * Runs off the main thread. Does nothing where the device cannot do it.
 */
export async function trimFileSystem(dir: string): Promise<void> {
  const range = Buffer.alloc(RANGE_BYTES);
  range.writeBigUInt64LE(0xffff_ffff_ffff_ffffn, LENGTH_AT);
  await onFolder(dir, (fd, settle) => ioctlCall.async(fd, FITRIM, range, settle));
}

/** Resolves when a file, or the names in a folder, are on the disk of the host. */
export async function syncFile(path: string): Promise<void> {
  await using file = await open(path, 'r');
  await file.sync();
}

type Settle = (error: Error | null, result: number) => void;

/** Calls a function of the C library with a descriptor of a folder. Resolves with its result. */
async function onFolder(dir: string, call: (fd: number, settle: Settle) => void): Promise<number> {
  const fd = openSync(dir, 'r');
  try {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    call(fd, (error, result) => (error ? reject(error) : resolve(result)));
    return await promise;
  } finally {
    closeSync(fd);
  }
}
