import { lstat, readdir, rename, rmdir } from 'node:fs/promises';
import { AgentError } from '../agent-error.ts';
import { shown } from '../files/file-fault.ts';
import { bytesOf, type FilePath, joined } from '../files/file-path.ts';
import { codeOf } from '../files/owner.ts';

/**
 * Moves what is in `from` into `to`, on the same file system: files and links replace files and links, folders are joined.
 * Throws `conflict` before anything is moved where one of them would have to take the place of the other.
 */
export async function mergeTree(from: FilePath, to: FilePath): Promise<void> {
  await requireFit(from, to);
  await moveInto(from, to);
}

async function requireFit(from: FilePath, to: FilePath): Promise<void> {
  for (const name of await namesIn(from)) {
    const [source, target] = [joined(from, name), joined(to, name)];
    const isFolder = (await lstat(bytesOf(source))).isDirectory();
    const there = await kindOf(target);
    if (there === 'nothing') continue;
    if (isFolder !== (there === 'folder')) {
      const why = isFolder ? 'is no directory, but one in the archive' : 'is a directory, but none in the archive';
      throw new AgentError('conflict', `${shown(target)} ${why}.`);
    }
    if (isFolder) await requireFit(source, target);
  }
}

async function moveInto(from: FilePath, to: FilePath): Promise<void> {
  for (const name of await namesIn(from)) {
    const [source, target] = [joined(from, name), joined(to, name)];
    const isFolder = (await lstat(bytesOf(source))).isDirectory();
    if (!isFolder || (await kindOf(target)) === 'nothing') await rename(bytesOf(source), bytesOf(target));
    else {
      await moveInto(source, target);
      await rmdir(bytesOf(source));
    }
  }
}

/** A link is no folder, wherever it leads: nothing of an archive goes through one. */
async function kindOf(path: FilePath): Promise<'nothing' | 'folder' | 'other'> {
  try {
    return (await lstat(bytesOf(path))).isDirectory() ? 'folder' : 'other';
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 'nothing';
    throw error;
  }
}

/** One character a byte. */
async function namesIn(folder: FilePath): Promise<string[]> {
  return readdir(bytesOf(folder), { encoding: 'latin1' as BufferEncoding });
}
