import { closeSync, fstatSync } from 'node:fs';
import { bindLibc, checked, errorCode } from './libc.ts';
import {
  AT_FDCWD,
  openIn,
  RESOLVE_BENEATH,
  RESOLVE_IN_ROOT,
  RESOLVE_NO_MAGICLINKS,
  RESOLVE_NO_SYMLINKS,
} from './openat2.ts';

const mountCall = bindLibc(
  'int mount(const char *source, const char *target, const char *type, ulong flags, str data)',
);
const umountCall = bindLibc('int umount2(const char *target, int flags)');
/* Called by number: older C libraries have no wrappers. The numbers are the same on every architecture. */
const openTreeCall = bindLibc('long syscall(long number, int dirFd, const char *path, uint flags)');
const moveMountCall = bindLibc(
  'long syscall(long number, int fromFd, const char *from, int toFd, const char *to, uint flags)',
);
const mountSetattrCall = bindLibc(
  'long syscall(long number, int dirFd, const char *path, uint flags, void *attributes, size_t size)',
);

const SYS_OPEN_TREE = 428;
const SYS_MOVE_MOUNT = 429;
const SYS_MOUNT_SETATTR = 442;

const AT_EMPTY_PATH = 0x1000;
const MNT_DETACH = 2;
const OPEN_TREE_CLONE = 1;
const OPEN_TREE_CLOEXEC = 0o2000000;
const MOVE_MOUNT_F_EMPTY_PATH = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH = 0x40;

export const MS_RDONLY = 1;
export const MS_NOSUID = 2;
export const MS_NODEV = 4;
const MS_REMOUNT = 32;
export const MS_NOATIME = 1024;

const ATTR_RDONLY = 0x1;
const ATTR_NOSUID = 0x2;
const ATTR_NODEV = 0x4;
const ATTR_IDMAP = 0x100000;

export interface FileSystemMount {
  type: string;
  source: string;
  target: string;
  flags?: number;
  options?: string;
}

/** Mounts a file system that reads no disk, which takes microseconds. */
export function mountFileSystem({ type, source, target, flags = 0, options = '' }: FileSystemMount): void {
  checked(mountCall(source, target, type, flags, options), 'mount', target);
}

/** Mounts a file system that reads a disk first, off the main thread. */
export async function mountDisk({ type, source, target, flags = 0, options = '' }: FileSystemMount): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  mountCall.async(source, target, type, flags, options, (error: Error | null, result: number) => {
    // errno belongs to the calling thread, so only the failure itself is known here.
    if (error) reject(error);
    else if (result < 0) reject(new Error(`mount ${target} (${type}) failed`));
    else resolve();
  });
  return promise;
}

/** Makes a mounted file system read-only and writes all of it to its disk. Fails while a file is open for writing. */
export function makeReadOnly(target: string): void {
  checked(mountCall('', target, '', MS_REMOUNT | MS_RDONLY, ''), 'mount', target);
}

/** Detaches the mount and all mounts below it from this namespace; other namespaces that have it keep it. */
export function detachMount(target: string): void {
  checked(umountCall(target, MNT_DETACH), 'umount2', target);
}

/**
 * Mounts the tree at `source` read-only at `target`. With `userNamespaceFd` the owners of its files are shifted by that
 * namespace's map: files of root there appear as owned by the namespace's root.
 */
export function bindReadOnly(source: string, target: string, userNamespaceFd?: number): void {
  const targetFd = openIn(AT_FDCWD, target, RESOLVE_NO_MAGICLINKS);
  bindReadOnlyAt(source, targetFd, userNamespaceFd);
}

/**
 * Mounts a tree read-only at a path within a sandbox's root. The path is resolved as in the sandbox: a link to `/etc`
 * means the sandbox's `/etc`, so nothing is ever mounted over the host's files.
 */
export function bindReadOnlyIn(rootDir: string, source: string, target: string): void {
  const rootFd = openIn(AT_FDCWD, rootDir, RESOLVE_NO_MAGICLINKS);
  try {
    bindReadOnlyAt(source, openIn(rootFd, target, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS));
  } finally {
    closeSync(rootFd);
  }
}

/**
 * Shifts the owners of the files of a mount by a user namespace's map, which must have all ids that are used there. The
 * mount keeps its other properties, and is the only one at `target` before and after.
 */
export function shiftOwners(target: string, userNamespaceFd: number): void {
  const tree = cloneTree(target);
  try {
    setAttributes(tree, 0, userNamespaceFd, target);
    detachMount(target);
    const targetFd = openIn(AT_FDCWD, target, RESOLVE_NO_MAGICLINKS);
    try {
      moveTree(tree, targetFd, target);
    } finally {
      closeSync(targetFd);
    }
  } finally {
    closeSync(tree);
  }
}

/** Returns whether a folder has a folder of that name, which is not a link. */
export function hasFolder(dir: string, name: string): boolean {
  const dirFd = openIn(AT_FDCWD, dir, RESOLVE_NO_MAGICLINKS);
  try {
    const fd = openIn(dirFd, name, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
    try {
      return fstatSync(fd).isDirectory();
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    if (['ENOENT', 'ELOOP', 'ENOTDIR'].includes(errorCode(error) ?? '')) return false;
    throw error;
  } finally {
    closeSync(dirFd);
  }
}

/** Binds at an open target; closes `targetFd`. */
function bindReadOnlyAt(source: string, targetFd: number, userNamespaceFd?: number): void {
  let tree: number | undefined;
  try {
    tree = cloneTree(source);
    setAttributes(tree, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV, userNamespaceFd, source);
    moveTree(tree, targetFd, source);
  } finally {
    if (tree !== undefined) closeSync(tree);
    closeSync(targetFd);
  }
}

/** Returns a descriptor of a copy of the mount tree at `source`, which is mounted nowhere. */
function cloneTree(source: string): number {
  const flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
  return checked(openTreeCall(SYS_OPEN_TREE, AT_FDCWD, source, flags), 'open_tree', source);
}

function setAttributes(tree: number, flags: number, userNamespaceFd: number | undefined, source: string): void {
  const attributes = Buffer.alloc(32);
  const idmap = userNamespaceFd === undefined ? 0 : ATTR_IDMAP;
  attributes.writeBigUInt64LE(BigInt(flags | idmap), 0);
  attributes.writeBigUInt64LE(BigInt(userNamespaceFd ?? 0), 24);
  const changed = mountSetattrCall(SYS_MOUNT_SETATTR, tree, '', AT_EMPTY_PATH, attributes, attributes.length);
  checked(changed, 'mount_setattr', source);
}

function moveTree(tree: number, targetFd: number, source: string): void {
  const empty = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
  checked(moveMountCall(SYS_MOVE_MOUNT, tree, '', targetFd, '', empty), 'move_mount', source);
}
