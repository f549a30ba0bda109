/**
 * Unpacks an archive that somebody sent. Nothing of it is believed: what it holds is made in a hidden folder of our own
 * beside its place, and only when all of it was fine is it put in place.
 */
import { constants } from 'node:fs';
import { chmod, lchown, link, lutimes, mkdir, open, rm, statfs, symlink, unlink } from 'node:fs/promises';
import { posix } from 'node:path';
import { type ArchiveEntry, badArchive, entryPath, refusedEntry, requireInnerLink } from '@cloche/protocol';
import { AgentError } from '../agent-error.ts';
import { bytesOf, type FilePath, joined } from '../files/file-path.ts';
import type { Owner } from '../files/owner.ts';
import { temporaryIn } from '../files/temporary.ts';
import { mergeTree } from './merge-tree.ts';

export interface UnpackLimits {
  readonly maxEntries: number;
  /** Of all files together; the disk's own bound holds as well. */
  readonly maxBytes: number;
}

export interface Unpacked {
  entries: number;
  /** Of all files together. */
  sizeBytes: number;
}

/** Bits that programs of the sandbox could gain something by are not taken from strangers. */
const MODE_MASK = 0o777;
const BATCH_BYTES = 1024 * 1024;

/**
 * Puts what `entries` has into `folder`, which exists: files replace files, folders are joined. All of it becomes the
 * `user`'s. Throws `bad_archive`, `conflict` or `disk_full`, and then nothing is changed.
 */
export async function unpack(
  entries: AsyncIterable<ArchiveEntry>,
  folder: FilePath,
  user: Owner,
  limits: UnpackLimits,
): Promise<Unpacked> {
  // In the folder itself: it may be where another file system begins.
  const stage = temporaryIn(folder);
  // SECURITY: root's alone while it is filled, so nothing of the guest's can put a link in the way (unpack.test.ts).
  await mkdir(bytesOf(stage), 0o700);
  try {
    const unpacking = new Unpacking(stage, user, { ...limits, maxBytes: await bounded(folder, limits) });
    for await (const entry of entries) await unpacking.add(entry);
    await unpacking.finish();
    await mergeTree(stage, folder);
    return unpacking.result;
  } finally {
    await rm(bytesOf(stage), { recursive: true, force: true });
  }
}

async function bounded(folder: FilePath, { maxBytes }: UnpackLimits): Promise<number> {
  const { blocks, bfree, bsize } = await statfs(bytesOf(folder));
  return blocks === 0 ? maxBytes : Math.min(maxBytes, bfree * bsize);
}

class Unpacking {
  readonly result: Unpacked = { entries: 0, sizeBytes: 0 };
  readonly #stage: FilePath;
  readonly #user: Owner;
  readonly #limits: UnpackLimits;
  /** What has been made, by its path in the archive. */
  readonly #made = new Map<string, ArchiveEntry['type']>();
  readonly #folders = new Map<string, { mode: number; mtime: number }>();

  constructor(stage: FilePath, user: Owner, limits: UnpackLimits) {
    this.#stage = stage;
    this.#user = user;
    this.#limits = limits;
  }

  async add(entry: ArchiveEntry): Promise<void> {
    if (++this.result.entries > this.#limits.maxEntries) {
      throw badArchive(`it has more than ${this.#limits.maxEntries} entries`);
    }
    const path = entryPath(entry.name);
    // The folder itself is there, with a mode of its own.
    if (path === '' && entry.type === 'directory') return;
    if (path === '') throw refusedEntry(entry.name, 'has no name');
    await this.#makeParents(path);
    await this.#makeRoom(path, entry.type);
    await this.#make(path, entry);
    this.#made.set(path, entry.type);
  }

  /** Folders get their modes and times when nothing is put in them any more. */
  async finish(): Promise<void> {
    for (const [path, { mode, mtime }] of [...this.#folders].reverse()) await this.#dress(path, mode, mtime);
  }

  async #make(path: string, entry: ArchiveEntry): Promise<void> {
    const at = bytesOf(joined(this.#stage, path));
    const { type, target, mode, mtime } = entry;
    switch (type) {
      case 'directory':
        if (!this.#made.has(path)) await mkdir(at, 0o700);
        this.#folders.set(path, { mode: mode & MODE_MASK || 0o755, mtime });
        return;
      case 'symlink':
        requireInnerLink(path, target);
        await symlink(Buffer.from(target, 'latin1'), at);
        await lchown(at, this.#user.uid, this.#user.gid);
        return;
      case 'hardlink': {
        const first = entryPath(target);
        if (this.#made.get(first) !== 'file')
          throw refusedEntry(path, 'is a link to a file that is not in the archive before it');
        await link(bytesOf(joined(this.#stage, first)), at);
        return;
      }
      case 'file':
        await this.#writeFile(at, entry.content);
        await this.#dress(path, mode & MODE_MASK || 0o644, mtime);
    }
  }

  async #writeFile(at: Buffer, content: AsyncIterable<Buffer>): Promise<void> {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    const handle = await open(at, flags, 0o600);
    try {
      let batch: Buffer[] = [];
      let bytes = 0;
      for await (const chunk of content) {
        this.result.sizeBytes += chunk.length;
        if (this.result.sizeBytes > this.#limits.maxBytes) throw tooLarge(this.#limits.maxBytes);
        batch.push(chunk);
        bytes += chunk.length;
        if (bytes < BATCH_BYTES) continue;
        await handle.writeFile(batch);
        batch = [];
        bytes = 0;
      }
      if (bytes > 0) await handle.writeFile(batch);
    } finally {
      await handle.close();
    }
  }

  async #makeParents(path: string): Promise<void> {
    const parent = posix.dirname(path);
    if (parent === '.') return;
    const type = this.#made.get(parent);
    if (type === 'directory') return;
    if (type !== undefined) throw refusedEntry(path, 'lies below something that is no directory');
    await this.#makeParents(parent);
    await mkdir(bytesOf(joined(this.#stage, parent)), 0o700);
    this.#made.set(parent, 'directory');
    this.#folders.set(parent, { mode: 0o755, mtime: Date.now() / 1000 });
    if (this.#made.size > 2 * this.#limits.maxEntries) throw badArchive('it has too many directories');
  }

  /** The last of several entries of one name counts, as in archives that were added to. */
  async #makeRoom(path: string, type: ArchiveEntry['type']): Promise<void> {
    const before = this.#made.get(path);
    if (before === undefined || (before === 'directory' && type === 'directory')) return;
    if (before === 'directory' || type === 'directory') throw refusedEntry(path, 'is a directory and something else');
    await unlink(bytesOf(joined(this.#stage, path)));
  }

  async #dress(path: string, mode: number, mtime: number): Promise<void> {
    const at = bytesOf(joined(this.#stage, path));
    await lchown(at, this.#user.uid, this.#user.gid);
    await chmod(at, mode);
    await lutimes(at, mtime, mtime);
  }
}

function tooLarge(maxBytes: number): AgentError {
  return new AgentError('disk_full', `The archive holds more than the ${maxBytes} bytes that there is room for.`);
}
