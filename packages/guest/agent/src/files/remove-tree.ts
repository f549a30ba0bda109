import { TimeSlice } from '@cloche/node-support';
import { codeOf } from '../base/error-code.ts';
import { PermissionDeniedError } from './file-error.ts';
import { type FilePath, joined } from './file-path.ts';
import type { FileSystem } from './file-system.ts';
import { allNamesIn } from './list-files.ts';
import { temporaryIn } from './temporary.ts';

/** Deletes a file, or a folder with its content. Idempotent. */
export async function removeTree(path: FilePath, system: FileSystem, timeSlice = new TimeSlice()): Promise<void> {
  await timeSlice.yieldIfOver();
  if (!system.findLink(path)?.isDirectory()) return ignoreMissing(() => system.unlink(path));
  for (const name of await allNamesIn(path, system)) await removeTree(joined(path, name), system, timeSlice);
  ignoreMissing(() => system.rmdir(path));
}

/** Deletes a tree that the agent created, including folders whose mode is read-only. Never throws. */
export async function removeOwnTree(path: FilePath, system: FileSystem, timeSlice = new TimeSlice()): Promise<void> {
  try {
    await timeSlice.yieldIfOver();
    if (!system.findLink(path)?.isDirectory()) return ignoreMissing(() => system.unlink(path));
    system.chmod(path, 0o700);
    for (const name of await allNamesIn(path, system)) await removeOwnTree(joined(path, name), system, timeSlice);
    system.rmdir(path);
  } catch {
    // The operation that created the tree reports its own outcome.
  }
}

/** Throws if `removeTree` would stop halfway, at a folder that the user may not change. */
export async function requireRemovable(path: FilePath, system: FileSystem, timeSlice = new TimeSlice()): Promise<void> {
  await timeSlice.yieldIfOver();
  if (system.user === 'root' || !system.lstat(path).isDirectory()) return;
  const names = await allNamesIn(path, system);
  if (names.length > 0 && !isWritable(path, system)) throw new PermissionDeniedError(path, system.user);
  for (const name of names) await requireRemovable(joined(path, name), system, timeSlice);
}

/** Returns whether the user may create entries in `folder`. Tries it, because only the system knows all the rules. */
export function isWritable(folder: FilePath, system: FileSystem): boolean {
  const attempt = temporaryIn(folder);
  try {
    system.mkdir(attempt);
    system.rmdir(attempt);
    return true;
  } catch (error) {
    // Deleting needs no space, so a full disk does not count.
    return !(error instanceof PermissionDeniedError);
  }
}

function ignoreMissing(act: () => void): void {
  try {
    act();
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
  }
}
