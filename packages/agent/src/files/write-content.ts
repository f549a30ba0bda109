import { type BigIntStats, constants } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import type { AgentFile } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { preconditionHolds } from './conditions.ts';
import { permissionsOf } from './copy-tree.ts';
import { describeFile, etagOf } from './file-entry.ts';
import { onFile, shown, toFileFault } from './file-fault.ts';
import { codeOf, type FilePath, folderOf, followed } from './file-path.ts';
import { closeQuietly, type FileSystem } from './file-system.ts';
import { makeFolders, removeFolders } from './folders.ts';
import { temporaryIn } from './temporary.ts';

const NEW_FILE_MODE = 0o644;
const MAX_LINKS = 40;

export interface WriteContent {
  readonly path: FilePath;
  /** Permissions; by default those of the file that was there. */
  readonly mode: number | undefined;
  readonly headers: IncomingHttpHeaders;
  /** Asks the sender for the bytes and writes them to the open file. Rejects if the transfer breaks off. */
  readonly receive: (fd: number) => Promise<void>;
}

/**
 * Replaces the file at `path` when all bytes have come; until then, and if they never do, it stays as it is and nothing
 * else is left. Nothing is flushed to the disk: it lives no longer than the sandbox. Nor is there anything to sweep after
 * a crash: a sandbox ends with its agent.
 */
export async function writeContent(write: WriteContent, system: FileSystem): Promise<AgentFile> {
  const { target, made } = system.run(() => begin(write, system));
  try {
    return await writeBeside(write, target, system);
  } catch (error) {
    removeFolders(made, system);
    throw toFileFault(error, target);
  }
}

function begin(write: WriteContent, system: FileSystem): { target: FilePath; made: FilePath[] } {
  const target = onFile(write.path, () => linkTarget(write.path, system));
  return onFile(target, () => {
    requireCondition(write, target, system);
    const folder = folderOf(target);
    const made = makeFolders(folder, system);
    try {
      requireRoom(folder, write.headers, system);
      return { target, made };
    } catch (error) {
      removeFolders(made, system);
      throw error;
    }
  });
}

async function writeBeside(write: WriteContent, target: FilePath, system: FileSystem): Promise<AgentFile> {
  const temporary = temporaryIn(folderOf(target));
  const fd = system.open(temporary, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL, 0o600);
  try {
    await write.receive(fd);
    // In one go: between the look and the change no other upload does either.
    return system.run(() => {
      const replaced = requireCondition(write, target, system);
      dress(fd, replaced, write, system);
      putInPlace(write, temporary, target, system);
      return describeFile(target, system);
    });
  } catch (error) {
    removeIfThere(temporary, system);
    throw error;
  } finally {
    closeQuietly(fd);
  }
}

/** Root leaves a file to its owner; any other user owns what it writes. */
function dress(fd: number, replaced: BigIntStats | undefined, { mode }: WriteContent, system: FileSystem): void {
  // Before the mode: a change of owner takes set-user-id bits away.
  if (replaced && system.user === 'root') system.chownOpen(fd, replaced.uid, replaced.gid);
  const kept = replaced && permissionsOf(replaced, system.statOpen(fd));
  system.chmodOpen(fd, mode ?? kept ?? NEW_FILE_MODE);
}

function putInPlace(write: WriteContent, temporary: FilePath, target: FilePath, system: FileSystem): void {
  if (write.headers['if-none-match'] === undefined) {
    system.rename(temporary, target);
    return;
  }
  try {
    // Fails where a program of the guest's has made the file at this very moment, as `rename` would not.
    system.link(temporary, target);
  } catch (error) {
    throw codeOf(error) === 'EEXIST' ? conditionFailed(target) : error;
  }
  system.unlink(temporary);
}

function removeIfThere(path: FilePath, system: FileSystem): void {
  try {
    system.unlink(path);
  } catch {
    // Code of the user's has taken it away.
  }
}

/** Returns the file at `target`. @throws AgentError if it cannot be replaced, or not by this request. */
function requireCondition({ headers }: WriteContent, target: FilePath, system: FileSystem): BigIntStats | undefined {
  const found = findFile(target, system);
  if (!preconditionHolds(headers, found && etagOf(found))) throw conditionFailed(target);
  return found;
}

function findFile(target: FilePath, system: FileSystem): BigIntStats | undefined {
  const found = system.find(target);
  if (found === undefined || found.isFile()) return found;
  const what = found.isDirectory() ? 'a directory' : 'a pipe, a socket or a device';
  throw new AgentError('conflict', `${shown(target)} is ${what} and cannot be replaced by a file.`);
}

function conditionFailed(target: FilePath): AgentError {
  return new AgentError(
    'precondition_failed',
    `${shown(target)} does not meet the condition in If-Match or If-None-Match.`,
  );
}

/** Where the last part of `path` leads: a link stays, and what it points to is written. */
function linkTarget(path: FilePath, system: FileSystem): FilePath {
  let at = path;
  for (let links = 0; links <= MAX_LINKS; links += 1) {
    if (!system.findLink(at)?.isSymbolicLink()) return at;
    at = followed(folderOf(at), system.readlink(at).toString('latin1'));
  }
  throw new AgentError('conflict', `${shown(path)} has too many symbolic links.`);
}

/** What is announced to be larger than the disk need not be sent. */
function requireRoom(folder: FilePath, { 'content-length': length }: IncomingHttpHeaders, system: FileSystem): void {
  const { blocks, bfree, bsize } = system.room(folder);
  if (length === undefined || blocks === 0 || Number(length) <= bfree * bsize) return;
  throw new AgentError(
    'disk_full',
    `${length} bytes do not fit: the disk of the sandbox has ${bfree * bsize} bytes free.`,
  );
}
