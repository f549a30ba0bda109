import type { BigIntStats } from 'node:fs';
import { chown, lstat, mkdir, rmdir, stat } from 'node:fs/promises';
import { bytesOf, type FilePath, folderOf } from './file-path.ts';

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Who gets what is made in a folder: the user wherever the user could have made it, else the folder's own owner. */
export function ownerIn(folder: Pick<BigIntStats, 'uid' | 'gid' | 'mode'>, user: Owner): Owner {
  const uid = Number(folder.uid);
  const gid = Number(folder.gid);
  const mode = Number(folder.mode);
  const writable = uid === user.uid ? mode & 0o200 : gid === user.gid ? mode & 0o020 : mode & 0o002;
  return writable === 0 ? { uid, gid } : user;
}

/** Makes `folder` and what is missing above it; the new ones, outermost first. */
export async function makeFolders(folder: FilePath, user: Owner): Promise<FilePath[]> {
  const missing: FilePath[] = [];
  for (let at = folder; !(await exists(at)); at = folderOf(at)) missing.unshift(at);
  const made: FilePath[] = [];
  for (const path of missing) {
    const owner = ownerIn(await stat(bytesOf(folderOf(path)), { bigint: true }), user);
    // Somebody else may have made it meanwhile, which is as good.
    if (!(await mkdir(bytesOf(path)).then(() => true, ignoreExisting))) continue;
    made.push(path);
    await chown(bytesOf(path), owner.uid, owner.gid);
  }
  return made;
}

/** Takes back what `makeFolders` made, as far as nobody uses it. */
export async function removeFolders(made: readonly FilePath[]): Promise<void> {
  for (const path of made.toReversed()) await rmdir(bytesOf(path)).catch(() => undefined);
}

async function exists(path: FilePath): Promise<boolean> {
  try {
    await lstat(bytesOf(path));
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

function ignoreExisting(error: unknown): false {
  if (codeOf(error) === 'EEXIST') return false;
  throw error;
}

export function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}
