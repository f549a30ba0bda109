/**
 * Unpacks a sandbox's archive on this machine. The archive is not trusted: it is unpacked completely into a private
 * folder in the target, and then merged into the target.
 */
import { randomBytes } from 'node:crypto';
import {
  closeSync,
  constants,
  futimesSync,
  linkSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  openSync,
  symlinkSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { mkdir, rm, rmdir, stat } from 'node:fs/promises';
import { posix } from 'node:path';
import { type ArchiveEntry, entryPath, invalidArchive, readTar, refusedEntry } from '@cloche/archive';
import { explainTransfer } from './explain-transfer.ts';
import { bytesOf, mergeTree } from './merge-tree.ts';

export interface UnpackOptions {
  /** Name of a directory to create in the folder for the content. Empty: the content goes into the folder itself. */
  readonly as?: Buffer;
  readonly signal: AbortSignal;
}

/** Maximum number of directories. Each one costs memory until the end. */
const MAX_FOLDERS = 1_000_000;
/** Permissions that are kept; excludes the set-id bits. */
const MODE_MASK = 0o777;
/** Permissions that every directory gets, so that its owner can update and delete the copy. */
const FOLDER_MODE = 0o700;

/**
 * Unpacks a tar archive into `place`, which is created if missing. Files replace files and links, and directories are
 * merged. Existing links in `place` are not followed.
 *
 * @throws CliError if the archive is refused or `place` cannot be written. Nothing has changed then, unless the error
 * names a file that could not be moved into place.
 */
export async function unpackLocal(
  place: string | Buffer,
  archive: AsyncIterable<Uint8Array>,
  { as = Buffer.of(), signal }: UnpackOptions,
): Promise<void> {
  // One character per byte, so that the path functions work with any name.
  const folder = Buffer.from(place).toString('latin1');
  const stage = posix.join(folder, `.cloche-${randomBytes(6).toString('hex')}.part`);
  const root = posix.join(stage, as.toString('latin1'));
  let made: readonly string[] = [];
  try {
    made = await makeFolders(folder);
    // SECURITY: other users cannot reach the archive's content before it was checked (unpack-local.test.ts).
    await mkdir(bytesOf(stage), FOLDER_MODE);
    if (root !== stage) await mkdir(bytesOf(root));
    const unpacking = new Unpacking(root);
    for await (const entry of readTar(archive)) {
      signal.throwIfAborted();
      await unpacking.add(entry);
    }
    unpacking.finish();
    signal.throwIfAborted();
    await mergeTree(stage, folder);
    made = [];
  } catch (error) {
    signal.throwIfAborted();
    throw explainTransfer(error, Buffer.from(place).toString());
  } finally {
    await rm(bytesOf(stage), { recursive: true, force: true }).catch(() => undefined);
    for (const path of made) await rmdir(bytesOf(path)).catch(() => undefined);
  }
}

/** Creates missing folders and returns them, the deepest first. */
async function makeFolders(folder: string): Promise<string[]> {
  const missing: string[] = [];
  for (let path = folder; !(await exists(path)); path = posix.dirname(path)) missing.push(path);
  for (const path of missing.toReversed()) await mkdir(bytesOf(path));
  return missing;
}

async function exists(path: string): Promise<boolean> {
  try {
    await stat(bytesOf(path));
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    throw error;
  }
}

/**
 * Fills a private folder. Writes synchronously, which is faster for many small files; the process has nothing else to
 * do.
 */
class Unpacking {
  readonly #root: string;
  /**
   * Modification times of the created directories, by path in the archive. Every path in this map is a directory, not a
   * link.
   */
  readonly #folders = new Map<string, number | undefined>([['.', undefined]]);

  constructor(root: string) {
    this.#root = root;
  }

  async add({ name, type, mode, mtime, target, content }: ArchiveEntry): Promise<void> {
    const path = entryPath(name);
    if (path === '' && type === 'directory') return;
    if (path === '') throw refusedEntry(name, 'has no name');
    this.#makeFolder(posix.dirname(path), 0o777);
    if (type === 'directory') {
      this.#makeFolder(path, mode);
      this.#folders.set(path, mtime);
    } else if (type === 'symlink') this.#make(path, (at) => this.#link(path, target, at));
    else if (type === 'hardlink') this.#make(path, (at) => linkSync(this.#fileAt(path, target), at));
    else await this.#writeFile(path, mode, mtime, content);
  }

  /** Sets the times of directories, which must happen after the last change of their content. */
  finish(): void {
    for (const [path, mtime] of this.#folders) if (mtime !== undefined) lutimesSync(this.#at(path), mtime, mtime);
  }

  #makeFolder(path: string, mode: number): void {
    if (this.#folders.has(path)) return;
    this.#makeFolder(posix.dirname(path), 0o777);
    if (this.#folders.size > MAX_FOLDERS) throw invalidArchive(`it has more than ${MAX_FOLDERS} directories`);
    try {
      mkdirSync(this.#at(path), (mode & MODE_MASK) | FOLDER_MODE);
    } catch (error) {
      throw codeOf(error) === 'EEXIST' ? refusedEntry(path, 'occurs both as a directory and as a file') : error;
    }
    this.#folders.set(path, undefined);
  }

  /** Runs `act`, which fails if the path exists. The last of several entries with the same name wins. */
  #make<T>(path: string, act: (at: Buffer) => T): T {
    const at = this.#at(path);
    try {
      return act(at);
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
      if (lstatSync(at).isDirectory()) throw refusedEntry(path, 'occurs both as a directory and as a file');
      unlinkSync(at);
      return act(at);
    }
  }

  /** Creates a link with any target. The link is never followed. */
  #link(path: string, target: string, at: Buffer): void {
    if (target === '' || target.includes('\0')) throw refusedEntry(path, 'is a link with an invalid target');
    symlinkSync(bytesOf(target), at);
  }

  /** Returns the file of this archive that a hard link at `path` refers to. */
  #fileAt(path: string, target: string): Buffer {
    const first = entryPath(target);
    const at = this.#at(first);
    if (this.#folders.has(posix.dirname(first)) && lstatSync(at, { throwIfNoEntry: false })?.isFile()) return at;
    throw refusedEntry(path, 'is a hard link to a file that does not precede it in the archive');
  }

  async #writeFile(path: string, mode: number, mtime: number, content: ArchiveEntry['content']): Promise<void> {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    const file = this.#make(path, (at) => openSync(at, flags, mode & MODE_MASK));
    try {
      for await (const chunk of content) {
        for (let at = 0; at < chunk.length; ) at += writeSync(file, chunk, at);
      }
      futimesSync(file, mtime, mtime);
    } finally {
      closeSync(file);
    }
  }

  #at(path: string): Buffer {
    return bytesOf(posix.join(this.#root, path));
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
