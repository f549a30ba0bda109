import { PermissionDenied } from './file-fault.ts';
import { codeOf, type FilePath, joined } from './file-path.ts';
import type { FileSystem } from './file-system.ts';
import { allNamesIn } from './list-files.ts';
import { Pace } from './pace.ts';
import { temporaryIn } from './temporary.ts';

/** Deletes a file, or a folder with its content. Idempotent. */
export async function removeTree(path: FilePath, system: FileSystem, pace = new Pace()): Promise<void> {
  await pace.step();
  if (!system.findLink(path)?.isDirectory()) return goneIsGood(() => system.unlink(path));
  for (const name of await allNamesIn(path, system)) await removeTree(joined(path, name), system, pace);
  goneIsGood(() => system.rmdir(path));
}

/** Deletes a tree that the agent created, including folders whose mode is read-only. Never throws. */
export async function removeOwnTree(path: FilePath, system: FileSystem, pace = new Pace()): Promise<void> {
  try {
    await pace.step();
    if (!system.findLink(path)?.isDirectory()) return goneIsGood(() => system.unlink(path));
    system.chmod(path, 0o700);
    for (const name of await allNamesIn(path, system)) await removeOwnTree(joined(path, name), system, pace);
    system.rmdir(path);
  } catch {
    // The operation that created the tree reports its own outcome.
  }
}

/** Throws if `removeTree` would stop halfway, at a folder that the user may not change. */
export async function requireRemovable(path: FilePath, system: FileSystem, pace = new Pace()): Promise<void> {
  await pace.step();
  if (system.user === 'root' || !system.lstat(path).isDirectory()) return;
  const names = await allNamesIn(path, system);
  if (names.length > 0 && !isWritable(path, system)) throw new PermissionDenied(path, system.user);
  for (const name of names) await requireRemovable(joined(path, name), system, pace);
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
    return !(error instanceof PermissionDenied);
  }
}

function goneIsGood(act: () => void): void {
  try {
    act();
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
  }
}
