import { AgentError } from '../base/agent-error.ts';
import { shown } from '../files/file-error.ts';
import { type FilePath, joined } from '../files/file-path.ts';
import type { FileSystem } from '../files/file-system.ts';
import { allNamesIn } from '../files/list-files.ts';
import { TimeSlice } from '../files/time-slice.ts';

/**
 * Moves the entries of `from` into `to`, on the same file system. Files and links replace files and links; folders
 * are merged. Throws `conflict`, before it moves anything, if a folder would replace a file or a file a folder.
 */
export async function mergeTree(from: FilePath, to: FilePath, system: FileSystem): Promise<void> {
  const timeSlice = new TimeSlice();
  await requireMergeable(from, to, system, timeSlice);
  await moveInto(from, to, system, timeSlice);
}

async function requireMergeable(from: FilePath, to: FilePath, system: FileSystem, timeSlice: TimeSlice): Promise<void> {
  for (const name of await allNamesIn(from, system)) {
    await timeSlice.yieldIfOver();
    const [source, target] = [joined(from, name), joined(to, name)];
    const isFolder = system.lstat(source).isDirectory();
    const there = kindOf(target, system);
    if (there === 'nothing') continue;
    if (isFolder !== (there === 'folder')) {
      const why = isFolder
        ? 'is not a directory, but the archive has a directory of that name'
        : 'is a directory, but the archive has a file of that name';
      throw new AgentError('conflict', `${shown(target)} ${why}.`);
    }
    if (isFolder) await requireMergeable(source, target, system, timeSlice);
  }
}

async function moveInto(from: FilePath, to: FilePath, system: FileSystem, timeSlice: TimeSlice): Promise<void> {
  for (const name of await allNamesIn(from, system)) {
    await timeSlice.yieldIfOver();
    const [source, target] = [joined(from, name), joined(to, name)];
    const isFolder = system.lstat(source).isDirectory();
    if (!isFolder || kindOf(target, system) === 'nothing') system.rename(source, target);
    else {
      await moveInto(source, target, system, timeSlice);
      system.rmdir(source);
    }
  }
}

/**
 * Returns the kind of the entry at `path`. A link to a folder is `other`: an archive must not unpack through a link.
 */
function kindOf(path: FilePath, system: FileSystem): 'nothing' | 'folder' | 'other' {
  const found = system.findLink(path);
  if (found === undefined) return 'nothing';
  return found.isDirectory() ? 'folder' : 'other';
}
