import { type BigIntStats, constants } from 'node:fs';
import { chmod, copyFile, lchown, lstat, mkdir, readlink, symlink, utimes } from 'node:fs/promises';
import { AgentError } from '../agent-error.ts';
import { shown } from './file-fault.ts';
import { bytesOf, type FilePath, joined } from './file-path.ts';
import { namesIn } from './list-files.ts';
import type { Owner } from './owner.ts';

/** Copies what is at `from` to `to`, where nothing is yet: modes and times are kept, links stay links. */
export async function copyTree(from: FilePath, to: FilePath, ownerOf: (source: BigIntStats) => Owner): Promise<void> {
  const source = await lstat(bytesOf(from), { bigint: true });
  const { uid, gid } = ownerOf(source);
  if (source.isSymbolicLink()) {
    await symlink(await readlink(bytesOf(from), 'buffer'), bytesOf(to));
    await lchown(bytesOf(to), uid, gid);
    return;
  }
  if (source.isDirectory()) {
    await mkdir(bytesOf(to), 0o700);
    for (const name of await namesIn(from)) await copyTree(joined(from, name), joined(to, name), ownerOf);
  } else if (source.isFile()) {
    await copyFile(bytesOf(from), bytesOf(to), constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  } else {
    throw new AgentError('conflict', `${shown(from)} is a pipe, a socket or a device, which cannot be copied.`);
  }
  await lchown(bytesOf(to), uid, gid);
  // After the owner, whose change takes set-uid away; a directory's after what was put in it.
  await chmod(bytesOf(to), Number(source.mode) & 0o7777);
  await utimes(bytesOf(to), Number(source.atimeMs) / 1000, Number(source.mtimeMs) / 1000);
}
