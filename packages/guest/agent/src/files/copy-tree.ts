import { type BigIntStats, constants, copyFile } from 'node:fs';
import { promisify } from 'node:util';
import { TimeSlice } from '@cloche/node-support';
import { AgentError } from '../base/agent-error.ts';
import { shown } from './file-error.ts';
import { type FilePath, joined } from './file-path.ts';
import { closeQuietly, type FileSystem } from './file-system.ts';
import { namesIn } from './list-files.ts';

const copyByThread = promisify(copyFile);

/** Copies `from` to `to`, where nothing may exist. Keeps modes and times. Copies links as links. */
export async function copyTree(
  from: FilePath,
  to: FilePath,
  system: FileSystem,
  timeSlice = new TimeSlice(),
): Promise<void> {
  await timeSlice.yieldIfOver();
  const source = system.lstat(from);
  if (source.isSymbolicLink()) return system.run(() => system.symlink(system.readlink(from), to));
  if (source.isFile()) return copyContent(from, to, system);
  if (!source.isDirectory()) throw notCopied(from);
  system.mkdir(to, 0o700);
  for (const name of await namesIn(from, system))
    await copyTree(joined(from, name), joined(to, name), system, timeSlice);
  // After the entries, because the mode may forbid creating them and creating them changes the times.
  system.run(() => {
    system.chmod(to, permissionsOf(source, system.lstat(to)));
    system.setTimes(to, ...timesOf(source));
  });
}

/** Copies a file. Opens both files with the client's rights; a thread of Node's pool then copies the bytes. */
async function copyContent(from: FilePath, to: FilePath, system: FileSystem): Promise<void> {
  const source = system.open(from, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW);
  try {
    const found = system.statOpen(source);
    // Another kind of file has replaced it.
    if (!found.isFile()) throw notCopied(from);
    const target = system.open(to, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL, 0o600);
    try {
      await copyByThread(openPath(source), openPath(target), constants.COPYFILE_FICLONE);
      system.chmodOpen(target, permissionsOf(found, system.statOpen(target)));
      system.setTimesOpen(target, ...timesOf(found));
    } finally {
      closeQuietly(target);
    }
  } finally {
    closeQuietly(source);
  }
}

/** Returns a path that leads to the open file, even if its own path now leads elsewhere. */
function openPath(fd: number): string {
  return `/proc/self/fd/${fd}`;
}

/**
 * Returns the permissions of a copy. A copy with another owner has no set-user-id and set-group-id bits, because only
 * the owner may grant what they grant.
 */
export function permissionsOf(source: BigIntStats, made: BigIntStats): number {
  const isSameOwner = source.uid === made.uid && source.gid === made.gid;
  return Number(source.mode) & (isSameOwner ? 0o7777 : 0o1777);
}

function timesOf({ atimeMs, mtimeMs }: BigIntStats): [atime: number, mtime: number] {
  return [Number(atimeMs) / 1000, Number(mtimeMs) / 1000];
}

function notCopied(path: FilePath): AgentError {
  return new AgentError(
    'conflict',
    `${shown(path)} is a pipe, a socket or a device; only files, directories and links can be copied.`,
  );
}
