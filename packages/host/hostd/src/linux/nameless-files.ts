import { closeSync, constants, openSync, readlinkSync } from 'node:fs';
import { bindLibc, checked, errorCode } from './libc.ts';
import { AT_FDCWD } from './openat2.ts';

const nameToHandleCall = bindLibc(
  'int name_to_handle_at(int dirFd, const char *path, void *handle, _Out_ int *mountId, int flags)',
);
const openByHandleCall = bindLibc('int open_by_handle_at(int mountFd, void *handle, int flags)');
const linkatCall = bindLibc('int linkat(int oldDirFd, const char *old, int newDirFd, const char *new, int flags)');

const AT_EMPTY_PATH = 0x1000;
/** Node has no name for it. */
const O_TMPFILE = 0o20000000 | constants.O_DIRECTORY;
/** Bytes of `struct file_handle` without the handle, and most bytes of a handle. */
const HEAD_BYTES = 8;
const MAX_HANDLE_BYTES = 128;

/** Opens a new file without a name. The kernel frees it with its last user, unless `nameFile` has named it by then. */
export function openNamelessFile(folder: string): number {
  return openSync(folder, O_TMPFILE | constants.O_RDWR, 0o600);
}

/** Returns the kernel's handle of an open file, by which any process of root can open it again while it exists. */
export function handleOf(fd: number): string {
  const handle = Buffer.alloc(HEAD_BYTES + MAX_HANDLE_BYTES);
  handle.writeUInt32LE(MAX_HANDLE_BYTES, 0);
  checked(nameToHandleCall(fd, '', handle, [0], AT_EMPTY_PATH), 'name_to_handle_at');
  return handle.subarray(0, HEAD_BYTES + handle.readUInt32LE(0)).toString('base64');
}

/**
 * Gives a name to a file that has none and that something still uses, for example a loop device. A file that had a name
 * before cannot be named again.
 *
 * @param folder a folder on the file system of the file, which also gets the name
 * @throws SyscallError `ESTALE` if the file is gone
 */
export function nameFile(handle: string, folder: string, path: string): void {
  const fd = openByHandle(handle, folder);
  try {
    checked(linkatCall(fd, '', AT_FDCWD, path, AT_EMPTY_PATH), 'linkat', path);
  } finally {
    closeSync(fd);
  }
}

/** Returns the path by which the kernel shows an open file, for example as the file of a loop device. */
export function shownPathOf(fd: number): string {
  return readlinkSync(`/proc/self/fd/${fd}`).replace(/ \(deleted\)$/, '');
}

/** Returns whether a folder's file system can name files that were created without a name. */
export function canNameFiles(folder: string): boolean {
  try {
    const fd = openNamelessFile(folder);
    try {
      closeSync(openByHandle(handleOf(fd), folder));
      return true;
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    if (errorCode(error) === undefined) throw error;
    return false;
  }
}

function openByHandle(handle: string, folder: string): number {
  const folderFd = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const call = openByHandleCall(folderFd, Buffer.from(handle, 'base64'), constants.O_RDONLY);
    return checked(call, 'open_by_handle_at');
  } finally {
    closeSync(folderFd);
  }
}
