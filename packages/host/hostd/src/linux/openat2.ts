import { bindLibc, checked } from './libc.ts';

/* Called by number: older C libraries have no wrapper. The number is the same on every architecture. */
const openat2Call = bindLibc('long syscall(long number, int dirFd, const char *path, void *how, size_t size)');

const SYS_OPENAT2 = 437;
const O_CLOEXEC = 0o2000000;
const O_PATH = 0o10000000;

export const AT_FDCWD = -100;
export const RESOLVE_NO_MAGICLINKS = 0x02;
export const RESOLVE_NO_SYMLINKS = 0x04;
export const RESOLVE_BENEATH = 0x08;
export const RESOLVE_IN_ROOT = 0x10;

/**
 * Opens a path with restrictions on how it is resolved, by default only to name the file. The caller closes the result.
 */
export function openIn(dirFd: number, path: string, resolve: number, flags = O_PATH): number {
  const how = Buffer.alloc(24);
  how.writeBigUInt64LE(BigInt(flags | O_CLOEXEC), 0);
  how.writeBigUInt64LE(BigInt(resolve), 16);
  return checked(openat2Call(SYS_OPENAT2, dirFd, path, how, how.length), 'openat2', path);
}
