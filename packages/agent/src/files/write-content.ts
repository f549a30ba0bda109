import { type BigIntStats, statSync } from 'node:fs';
import { type FileHandle, link, lstat, open, readlink, rename, rm, stat, statfs } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import type { AgentFile } from '@cloche/protocol';
import { AgentError } from '../agent-error.ts';
import { preconditionHolds } from './conditions.ts';
import { describeFile, etagOf } from './file-entry.ts';
import { onFile, shown, toFileFault } from './file-fault.ts';
import { bytesOf, type FilePath, folderOf, followed } from './file-path.ts';
import { codeOf, makeFolders, type Owner, ownerIn, removeFolders } from './owner.ts';
import { temporaryIn } from './temporary.ts';

const NEW_FILE_MODE = 0o644;
const MAX_LINKS = 40;

export interface WriteContent {
  readonly path: FilePath;
  /** Permissions; by default those of the file that was there. */
  readonly mode: number | undefined;
  readonly headers: IncomingHttpHeaders;
  /** Writes the bytes to `file`, once the sender is told that they are wanted. Rejects if they break off. */
  readonly receive: (file: FileHandle) => Promise<void>;
}

/**
 * Replaces the file at `path` when all bytes have come; until then, and if they never do, it stays as it is and nothing
 * else is left. Nothing is flushed to the disk: it lives no longer than the sandbox. Nor is there anything to sweep after
 * a crash: a sandbox ends with its agent.
 */
export async function writeContent(write: WriteContent, user: Owner): Promise<AgentFile> {
  const target = await onFile(write.path, () => linkTarget(write.path));
  requireCondition(write, target);
  const folder = folderOf(target);
  const made = await onFile(target, () => makeFolders(folder, user));
  try {
    await onFile(target, () => requireRoom(folder, write.headers));
    return await writeBeside(write, target, user);
  } catch (error) {
    await removeFolders(made);
    throw toFileFault(error, target);
  }
}

async function writeBeside(write: WriteContent, target: FilePath, user: Owner): Promise<AgentFile> {
  const folder = folderOf(target);
  const temporary = temporaryIn(folder);
  const handle = await open(bytesOf(temporary), 'wx', 0o600);
  try {
    await write.receive(handle);
    const replaced = findFile(target);
    await dress(
      handle,
      replaced ?? (await stat(bytesOf(folder), { bigint: true })),
      replaced !== undefined,
      write,
      user,
    );
    await commit(write, temporary, target);
    return await describeFile(target);
  } finally {
    await handle.close();
    await rm(bytesOf(temporary), { force: true });
  }
}

async function dress(
  handle: FileHandle,
  model: BigIntStats,
  isReplaced: boolean,
  { mode }: WriteContent,
  user: Owner,
): Promise<void> {
  const owner = isReplaced ? { uid: Number(model.uid), gid: Number(model.gid) } : ownerIn(model, user);
  // Before the mode: a change of owner takes set-uid away.
  await handle.chown(owner.uid, owner.gid);
  await handle.chmod(mode ?? (isReplaced ? Number(model.mode) & 0o7777 : NEW_FILE_MODE));
}

/** Commits under way, by target: between the look and the change no other upload to it does either. */
const commits = new Map<FilePath, Promise<void>>();

async function commit(write: WriteContent, temporary: FilePath, target: FilePath): Promise<void> {
  const mine = (commits.get(target) ?? Promise.resolve()).then(() => putInPlace(write, temporary, target));
  const settled = mine.catch(() => undefined);
  commits.set(target, settled);
  try {
    await mine;
  } finally {
    if (commits.get(target) === settled) commits.delete(target);
  }
}

async function putInPlace(write: WriteContent, temporary: FilePath, target: FilePath): Promise<void> {
  requireCondition(write, target);
  if (write.headers['if-none-match'] === undefined) {
    // It may take a while: the disk makes room for the new bytes before the old ones go.
    await rename(bytesOf(temporary), bytesOf(target));
    return;
  }
  try {
    // Fails where a program of the guest's has made the file at this very moment, as `rename` would not.
    await link(bytesOf(temporary), bytesOf(target));
  } catch (error) {
    throw codeOf(error) === 'EEXIST' ? conditionFailed(target) : error;
  }
}

/** @throws AgentError where what is at `target` cannot be replaced, or not by this request. */
function requireCondition({ headers }: WriteContent, target: FilePath): void {
  const found = findFile(target);
  if (!preconditionHolds(headers, found && etagOf(found))) throw conditionFailed(target);
}

function findFile(target: FilePath): BigIntStats | undefined {
  let found: BigIntStats | undefined;
  try {
    found = statSync(bytesOf(target), { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    throw toFileFault(error, target);
  }
  if (found === undefined || found.isFile()) return found;
  const what = found.isDirectory() ? 'a directory' : 'a pipe, a socket or a device';
  throw new AgentError('conflict', `${shown(target)} is ${what}; a file cannot take its place.`);
}

function conditionFailed(target: FilePath): AgentError {
  return new AgentError('precondition_failed', `${shown(target)} is not what If-Match or If-None-Match asks for.`);
}

/** Where the last part of `path` leads: a link stays, and what it points to is written. */
async function linkTarget(path: FilePath): Promise<FilePath> {
  let at = path;
  for (let links = 0; links <= MAX_LINKS; links += 1) {
    const found = await lstat(bytesOf(at)).catch((error: unknown) => {
      if (codeOf(error) === 'ENOENT') return undefined;
      throw error;
    });
    if (!found?.isSymbolicLink()) return at;
    at = followed(folderOf(at), (await readlink(bytesOf(at), 'buffer')).toString('latin1'));
  }
  throw new AgentError('conflict', `${shown(path)} leads through too many symbolic links.`);
}

/** What is announced to be larger than the disk need not be sent. */
async function requireRoom(folder: FilePath, { 'content-length': length }: IncomingHttpHeaders): Promise<void> {
  const { blocks, bfree, bsize } = await statfs(bytesOf(folder));
  if (length === undefined || blocks === 0 || Number(length) <= bfree * bsize) return;
  throw new AgentError('disk_full', `${length} bytes do not fit: the disk of the sandbox has ${bfree * bsize} left.`);
}
