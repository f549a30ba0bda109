import { type BigIntStats, constants } from 'node:fs';
import type { IncomingHttpHeaders } from 'node:http';
import type { AgentFile } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { codeOf } from '../base/error-code.ts';
import { readAttributes, setAttributes } from './attributes.ts';
import { preconditionHolds } from './conditions.ts';
import { permissionsOf } from './copy-tree.ts';
import { describeFile, etagOf } from './file-entry.ts';
import { onFile, shown, toFileError } from './file-error.ts';
import { type FilePath, folderOf, followed } from './file-path.ts';
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
 * Replaces the file at `path` after all bytes have arrived. If the transfer fails, the old file is unchanged and no new
 * file is left. Does not flush to disk, because the file lives no longer than the sandbox. Needs no clean-up after a
 * crash, because the sandbox ends with its agent.
 */
export async function writeContent(write: WriteContent, system: FileSystem): Promise<AgentFile> {
  const { target, made } = system.run(() => begin(write, system));
  try {
    return await writeBeside(write, target, system);
  } catch (error) {
    removeFolders(made, system);
    throw toFileError(error, target);
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
    // Synchronous as a whole, so that no other upload can change the file between the check and the replacement.
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

/**
 * Sets owner, mode and attributes. Root keeps the owner of the replaced file, unless the file system gives what it creates to
 * another one; any other user owns what it writes.
 */
function dress(
  fd: number,
  replaced: BigIntStats | undefined,
  { mode, headers }: WriteContent,
  system: FileSystem,
): void {
  // Before the mode, because a change of owner clears the set-user-id bit.
  if (replaced && system.user === 'root' && !system.owner) system.chownOpen(fd, replaced.uid, replaced.gid);
  const kept = replaced && permissionsOf(replaced, system.statOpen(fd));
  system.chmodOpen(fd, mode ?? kept ?? NEW_FILE_MODE);
  const attributes = headers['file-attributes'];
  // Most files have none, and need no library for them.
  if (attributes !== undefined) setAttributes(fd, readAttributes(attributes));
}

function putInPlace(write: WriteContent, temporary: FilePath, target: FilePath, system: FileSystem): void {
  if (write.headers['if-none-match'] === undefined) {
    system.rename(temporary, target);
    return;
  }
  try {
    // Unlike `rename`, `link` fails if a program of the sandbox has created the file just now.
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
    // Code of the user has removed or moved it.
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

/** Returns the file that `path` leads to. A link stays, and its target is written. */
function linkTarget(path: FilePath, system: FileSystem): FilePath {
  let at = path;
  for (let links = 0; links <= MAX_LINKS; links += 1) {
    if (!system.findLink(at)?.isSymbolicLink()) return at;
    at = followed(folderOf(at), system.readlink(at).toString('latin1'));
  }
  throw new AgentError('conflict', `${shown(path)} has too many symbolic links.`);
}

/** Throws `disk_full` if the announced size exceeds the free space, so that the client need not send the body. */
function requireRoom(folder: FilePath, { 'content-length': length }: IncomingHttpHeaders, system: FileSystem): void {
  const { blocks, bfree, bsize } = system.room(folder);
  if (length === undefined || blocks === 0 || Number(length) <= bfree * bsize) return;
  throw new AgentError(
    'disk_full',
    `${length} bytes do not fit: the disk of the sandbox has ${bfree * bsize} bytes free.`,
  );
}
