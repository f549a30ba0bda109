import { access, constants, lstat, readdir, rename, rmdir, unlink } from 'node:fs/promises';
import { posix } from 'node:path';
import { CliError } from '../cli-error.ts';

/**
 * Moves the content of `from` into `to` on the same file system, as rsync and docker cp do: files and links replace
 * files and links, directories are merged, and a directory replaces a link. Paths are strings with one character per
 * byte.
 *
 * @throws CliError before anything is moved, if a file and a directory have the same name
 */
export async function mergeTree(from: string, to: string): Promise<void> {
  await requireMergeable(from, to, (await lstat(bytesOf(from))).dev);
  await moveInto(from, to);
}

export function bytesOf(path: string): Buffer {
  return Buffer.from(path, 'latin1');
}

async function requireMergeable(from: string, to: string, device: number): Promise<void> {
  await access(bytesOf(to), constants.W_OK | constants.X_OK).catch(() => {
    throw new CliError(`${shown(to)} cannot be written: permission denied.`);
  });
  for (const { source, target, isFolder } of await pairsIn(from, to)) {
    const there = await find(target);
    if (!there || (isFolder && there.isSymbolicLink())) continue;
    if (isFolder !== there.isDirectory()) {
      const [here, inside] = isFolder ? ['a file', 'a directory'] : ['a directory', 'a file'];
      throw new CliError(
        `${shown(target)} is ${here} here, but ${inside} in the sandbox; move it away, then try again.`,
      );
    }
    if (!isFolder) continue;
    if (there.dev !== device) {
      throw new CliError(`${shown(target)} is on another file system; copy into that directory separately.`);
    }
    await requireMergeable(source, target, device);
  }
}

async function moveInto(from: string, to: string): Promise<void> {
  for (const { source, target, isFolder } of await pairsIn(from, to)) {
    const there = isFolder ? await find(target) : undefined;
    if (there?.isDirectory()) {
      await moveInto(source, target);
      await rmdir(bytesOf(source));
      continue;
    }
    if (there) await unlink(bytesOf(target));
    await rename(bytesOf(source), bytesOf(target));
  }
}

async function pairsIn(from: string, to: string) {
  const entries = await readdir(bytesOf(from), { encoding: 'latin1' as 'utf8', withFileTypes: true });
  return entries.map((entry) => ({
    source: posix.join(from, entry.name),
    target: posix.join(to, entry.name),
    isFolder: entry.isDirectory(),
  }));
}

async function find(path: string) {
  return lstat(bytesOf(path)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  });
}

function shown(path: string): string {
  return bytesOf(path).toString();
}
