/**
 * Creates, moves, copies and deletes files. A new file appears in one step: it is made under a temporary name and
 * renamed.
 */
import type { AgentFile } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { codeOf } from '../base/error-code.ts';
import { copyTree } from './copy-tree.ts';
import { describeFile } from './file-entry.ts';
import { onFile, PermissionDeniedError, shown, toFileError } from './file-error.ts';
import { type FilePath, folderOf } from './file-path.ts';
import type { FileSystem } from './file-system.ts';
import { makeFolders, removeFolders } from './folders.ts';
import { isWritable, removeOwnTree, removeTree, requireRemovable } from './remove-tree.ts';
import { temporaryIn } from './temporary.ts';

export interface Transfer {
  readonly from: FilePath;
  readonly to: FilePath;
  readonly overwrite: boolean;
}

/** Creates a directory and its missing parents. Idempotent. */
export function makeDirectory(path: FilePath, system: FileSystem): AgentFile {
  return onFile(path, () => {
    makeFolders(path, system);
    if (!system.stat(path).isDirectory()) throw conflict(path, 'exists and is not a directory');
    return describeFile(path, system);
  });
}

export async function moveFile(transfer: Transfer, system: FileSystem): Promise<AgentFile> {
  const { from } = transfer;
  requireMovable(from);
  return transferTo(transfer, system, async (put, folder) => {
    try {
      await put(from);
    } catch (error) {
      // The error does not say which of the two paths was refused.
      if (error instanceof PermissionDeniedError && isWritable(folder, system))
        throw new PermissionDeniedError(from, system.user);
      if (codeOf(error) !== 'EXDEV') throw error;
      // `to` is on another file system, or `from` is a directory of the template's layer.
      await requireRemovable(from, system);
      await putCopy(from, put, folder, system);
      await removeTree(from, system);
    }
  });
}

export async function copyFile(transfer: Transfer, system: FileSystem): Promise<AgentFile> {
  return transferTo(transfer, system, (put, folder) => putCopy(transfer.from, put, folder, system));
}

async function putCopy(
  from: FilePath,
  put: (path: FilePath) => Promise<void>,
  folder: FilePath,
  system: FileSystem,
): Promise<void> {
  const temporary = temporaryIn(folder);
  try {
    await copyTree(from, temporary, system);
    await put(temporary);
  } catch (error) {
    await removeOwnTree(temporary, system);
    throw error;
  }
}

/** Deletes a file. Returns the description that it had. */
export async function deleteFile(
  path: FilePath,
  recursive: boolean,
  workspace: FilePath,
  system: FileSystem,
): Promise<AgentFile> {
  try {
    const entry = describeFile(path, system);
    requireMovable(path);
    if (path === workspace) throw conflict(path, 'cannot be deleted; delete its entries instead');
    if (entry.type !== 'directory') system.unlink(path);
    else if (recursive) await removeTree(path, system);
    else system.rmdir(path);
    return entry;
  } catch (error) {
    throw toFileError(error, path);
  }
}

async function transferTo(
  { from, to, overwrite }: Transfer,
  system: FileSystem,
  act: (put: (path: FilePath) => Promise<void>, folder: FilePath) => Promise<void>,
): Promise<AgentFile> {
  const source = onFile(from, () => system.lstat(from));
  const folder = folderOf(to);
  const made = onFile(to, () => makeFolders(folder, system));
  try {
    const there = system.findLink(to);
    if (there && !overwrite) throw conflict(to, 'already exists; set overwrite to replace it');
    if (there && there.ino === source.ino && there.dev === source.dev) return describeFile(to, system);
    requireApart(from, to, system);
    await act((path) => putInPlace(path, to, there !== undefined, system), folder);
    return describeFile(to, system);
  } catch (error) {
    removeFolders(made, system);
    throw toFileError(error, to);
  }
}

/** Renames `path` to `to`. Replaces a file in one step. A directory at `to` is renamed first and deleted afterwards. */
async function putInPlace(path: FilePath, to: FilePath, isTaken: boolean, system: FileSystem): Promise<void> {
  try {
    system.rename(path, to);
  } catch (error) {
    if (!isTaken || !['EISDIR', 'ENOTDIR', 'ENOTEMPTY', 'EEXIST'].includes(codeOf(error) ?? '')) throw error;
    requireMovable(to);
    await requireRemovable(to, system);
    const aside = temporaryIn(folderOf(to));
    system.rename(to, aside);
    try {
      system.rename(path, to);
    } catch (failure) {
      system.rename(aside, to);
      throw failure;
    }
    await removeTree(aside, system);
  }
}

/** Throws if one path lies inside the other. */
function requireApart(from: FilePath, to: FilePath, system: FileSystem): void {
  const inner = `${system.realpath(folderOf(from))}/${from.slice(from.lastIndexOf('/') + 1)}/`;
  const outer = `${system.realpath(folderOf(to))}/${to.slice(to.lastIndexOf('/') + 1)}/`;
  if (outer.startsWith(inner)) throw conflict(to, `is inside ${shown(from)}; choose another target`);
  if (inner.startsWith(outer)) throw conflict(to, `contains ${shown(from)}; choose another target`);
}

function requireMovable(path: FilePath): void {
  if (path === '/') throw conflict(path, 'cannot be moved or replaced');
}

function conflict(path: FilePath, why: string): AgentError {
  return new AgentError('conflict', `${shown(path)} ${why}.`);
}
