import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import type { IdRange } from '../base/id-range.ts';
import { errorCode } from '../linux/libc.ts';
import { shiftOwners } from '../linux/mounts.ts';
import { openIn, RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS } from '../linux/openat2.ts';
import { runSilently } from '../linux/run-program.ts';
import { UserNamespace } from '../linux/user-namespace.ts';
import { SHARED_MEMORY } from './root-file-system.ts';

const REMOVE_MS = 60_000;
/** Map of the user namespace: host's root stays itself, by whose ids the kernel makes the work folder of an overlay. */
const ROOT_TO_ROOT = '0 0 1\n';
/** Names of the files that hostd writes for each instance, next to the files of the sandbox. */
const OF_ONE_INSTANCE = ['limits', 'sys', 'stdin', 'console.log'];
/** Folder by which the kernel refuses a second mount of an overlay that was not to be synchronized. */
const VOLATILE_MARK = 'work/work/incompat';

/**
 * Prepares a mounted disk for another instance: shifts the owners of its files from the ids that they were written with,
 * and removes what belonged to the instance before.
 *
 * SECURITY: no user of a sandbox is mapped to the host's root, so none can use its share of the map
 * (kept-disks.runtime.test.ts).
 */
export async function adoptDisk(diskDir: string, firstId: number, idRange: IdRange): Promise<void> {
  using namespace = new UserNamespace(idRange, firstId, ROOT_TO_ROOT);
  shiftOwners(diskDir, namespace.fd);
  for (const name of [...OF_ONE_INSTANCE, VOLATILE_MARK]) rmSync(join(diskDir, name), { recursive: true, force: true });
  await removeSharedMemory(join(diskDir, SHARED_MEMORY));
}

/** Removes the named shared memory, which is lost with the memory. It may be many files: another process does it. */
async function removeSharedMemory(folder: string): Promise<void> {
  if (!hasEntries(folder)) return rmSync(folder, { recursive: true, force: true });
  const args = ['-rf', '--one-file-system', '--', folder];
  const end = await runSilently({ file: 'rm', args, timeoutMs: REMOVE_MS });
  if (end.code !== 0) throw new Error(`${folder} could not be removed: ${JSON.stringify(end)}`);
}

function hasContents(fd: number, content: string): boolean {
  const read = Buffer.alloc(Buffer.byteLength(content) + 1);
  return read.toString('utf8', 0, readSync(fd, read, 0, read.length, 0)) === content;
}

function hasEntries(folder: string): boolean {
  try {
    return readdirSync(folder).length > 0;
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return false;
    throw error;
  }
}

/**
 * Replaces the contents of a file of the sandbox, if they differ. Leaves the path alone if it leads through a link or names
 * no regular file, because the sandbox has chosen that.
 */
export function rewriteFile(upper: string, path: string, content: string): void {
  const folderFd = openSync(upper, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    const flags = constants.O_RDWR | constants.O_NONBLOCK;
    const fd = openIn(folderFd, path, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS, flags);
    try {
      if (!fstatSync(fd).isFile() || hasContents(fd, content)) return;
      ftruncateSync(fd);
      writeSync(fd, content, 0);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    if (!['ENOENT', 'ENOTDIR', 'ELOOP', 'EISDIR', 'ENXIO', 'EACCES'].includes(errorCode(error) ?? '')) throw error;
  } finally {
    closeSync(folderFd);
  }
}
