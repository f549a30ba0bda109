import type { BigIntStats } from 'node:fs';

/** The part of a file's status that a watch remembers, to recognize changes and moves. */
export type FileState = Pick<BigIntStats, 'ino' | 'size' | 'mtimeNs' | 'ctimeNs'>;

export function stateOf({ ino, size, mtimeNs, ctimeNs }: BigIntStats): FileState {
  return { ino, size, mtimeNs, ctimeNs };
}

/** Returns whether two states are of one file with one content. A file that is moved keeps both. */
export function isSameFile(one: FileState, other: FileState): boolean {
  // The number of a file that was deleted is used again at once, but not with its time.
  return one.ino === other.ino && one.mtimeNs === other.mtimeNs && one.size === other.size;
}

/** Returns whether only permissions, the owner or attributes have changed. */
export function differsInAttributes(before: FileState, after: FileState): boolean {
  return isSameFile(before, after) && before.ctimeNs !== after.ctimeNs;
}
