/** Makes, moves, copies and deletes. What appears does so in one step: it is made beside its place and renamed. */
import type { BigIntStats } from 'node:fs';
import { lstat, rename, rm, rmdir, stat, unlink } from 'node:fs/promises';
import type { AgentFile } from '@cloche/protocol';
import { AgentError } from '../agent-error.ts';
import { copyTree } from './copy-tree.ts';
import { describeFile } from './file-entry.ts';
import { onFile, shown, toFileFault } from './file-fault.ts';
import { bytesOf, type FilePath, folderOf, realPathOf } from './file-path.ts';
import { codeOf, makeFolders, type Owner, ownerIn, removeFolders } from './owner.ts';
import { temporaryIn } from './temporary.ts';

export interface Transfer {
  readonly from: FilePath;
  readonly to: FilePath;
  readonly overwrite: boolean;
}

/** Idempotent. */
export async function makeDirectory(path: FilePath, user: Owner): Promise<AgentFile> {
  return onFile(path, async () => {
    await makeFolders(path, user);
    const real = await realPathOf(path);
    if (!(await lstat(bytesOf(real))).isDirectory()) throw conflict(path, 'exists and is no directory');
    return describeFile(path);
  });
}

export async function moveFile(transfer: Transfer, user: Owner): Promise<AgentFile> {
  const { from } = transfer;
  requireMovable(from);
  return transferTo(transfer, user, async (put, folder) => {
    try {
      await put(from);
    } catch (error) {
      if (codeOf(error) !== 'EXDEV') throw error;
      // To another file system, or a directory of the template.
      await putCopy(from, put, folder, ({ uid, gid }) => ({ uid: Number(uid), gid: Number(gid) }));
      await removeTree(from);
    }
  });
}

export async function copyFile(transfer: Transfer, user: Owner): Promise<AgentFile> {
  return transferTo(transfer, user, async (put, folder) => {
    const owner = ownerIn(await stat(bytesOf(folder), { bigint: true }), user);
    await putCopy(transfer.from, put, folder, () => owner);
  });
}

async function putCopy(
  from: FilePath,
  put: (path: FilePath) => Promise<void>,
  folder: FilePath,
  ownerOf: (source: BigIntStats) => Owner,
): Promise<void> {
  const temporary = temporaryIn(folder);
  try {
    await copyTree(from, temporary, ownerOf);
    await put(temporary);
  } catch (error) {
    await removeTree(temporary);
    throw error;
  }
}

/** What was there. */
export async function deleteFile(path: FilePath, recursive: boolean, workspace: FilePath): Promise<AgentFile> {
  return onFile(path, async () => {
    const entry = await describeFile(path);
    requireMovable(path);
    if (path === workspace) throw conflict(path, 'stays; delete what is in it');
    if (entry.type !== 'directory') await unlink(bytesOf(path));
    else if (recursive) await removeTree(path);
    else await rmdir(bytesOf(path));
    return entry;
  });
}

async function transferTo(
  { from, to, overwrite }: Transfer,
  user: Owner,
  act: (put: (path: FilePath) => Promise<void>, folder: FilePath) => Promise<void>,
): Promise<AgentFile> {
  const source = await onFile(from, () => lstat(bytesOf(from), { bigint: true }));
  const folder = folderOf(to);
  const made = await onFile(to, () => makeFolders(folder, user));
  try {
    const there = await lstat(bytesOf(to), { bigint: true }).catch(absent);
    if (there && !overwrite) throw conflict(to, 'exists already; replace it with overwrite');
    if (there && there.ino === source.ino && there.dev === source.dev) return await describeFile(to);
    await requireApart(from, to);
    await act((path) => putInPlace(path, to, there !== undefined), folder);
    return await describeFile(to);
  } catch (error) {
    await removeFolders(made);
    throw toFileFault(error, to);
  }
}

/** A file takes another's place in one step; for a directory, what was there has to step aside first. */
async function putInPlace(path: FilePath, to: FilePath, isTaken: boolean): Promise<void> {
  try {
    await rename(bytesOf(path), bytesOf(to));
  } catch (error) {
    if (!isTaken || !['EISDIR', 'ENOTDIR', 'ENOTEMPTY', 'EEXIST'].includes(codeOf(error) ?? '')) throw error;
    requireMovable(to);
    const aside = temporaryIn(folderOf(to));
    await rename(bytesOf(to), bytesOf(aside));
    try {
      await rename(bytesOf(path), bytesOf(to));
    } catch (failure) {
      await rename(bytesOf(aside), bytesOf(to));
      throw failure;
    }
    await removeTree(aside);
  }
}

/** Neither may lie in the other: one would have to hold itself, or to replace what holds it. */
async function requireApart(from: FilePath, to: FilePath): Promise<void> {
  const inner = `${await realPathOf(folderOf(from))}/${from.slice(from.lastIndexOf('/') + 1)}/`;
  const outer = `${await realPathOf(folderOf(to))}/${to.slice(to.lastIndexOf('/') + 1)}/`;
  if (outer.startsWith(inner)) throw conflict(to, `lies in ${shown(from)}`);
  if (inner.startsWith(outer)) throw conflict(to, `holds ${shown(from)}`);
}

function requireMovable(path: FilePath): void {
  if (path === '/') throw conflict(path, 'stays where it is');
}

function removeTree(path: FilePath): Promise<void> {
  return rm(bytesOf(path), { recursive: true, force: true });
}

function absent(error: unknown): undefined {
  if (codeOf(error) === 'ENOENT') return undefined;
  throw error;
}

function conflict(path: FilePath, why: string): AgentError {
  return new AgentError('conflict', `${shown(path)} ${why}.`);
}
