/**
 * Unpacks an archive that somebody sent. Nothing of it is believed: what it holds is made in a hidden folder of our own
 * beside its place, and only when all of it was fine is it put in place.
 */
import { constants } from 'node:fs';
import { posix } from 'node:path';
import { type ArchiveEntry, badArchive, entryPath, refusedEntry, requireInnerLink } from '@cloche/protocol';
import { AgentError } from '../base/agent-error.ts';
import { type FilePath, joined } from '../files/file-path.ts';
import { closeQuietly, type FileSystem } from '../files/file-system.ts';
import { Pace } from '../files/pace.ts';
import { QuickFile } from '../files/quick-file.ts';
import { removeOwnTree } from '../files/remove-tree.ts';
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
/** Permission bits that the owner of a directory needs to move it and its content. */
const OWNER_BITS = 0o700;

/**
 * Puts what `entries` has into `folder`, which exists: files replace files, folders are joined. All of it becomes the
 * user's whose rights `system` has. Throws `bad_archive`, `conflict` or `disk_full`, and then nothing is changed.
 */
export async function unpack(
  entries: AsyncIterable<ArchiveEntry>,
  folder: FilePath,
  system: FileSystem,
  limits: UnpackLimits,
): Promise<Unpacked> {
  // In the folder itself: it may be where another file system begins.
  const stage = temporaryIn(folder);
  // SECURITY: code of the same user may put a link in the way while it is filled, which leads where that user may write
  // anyway (e2e/security/file-rights.test.ts).
  system.mkdir(stage, OWNER_BITS);
  try {
    const unpacking = new Unpacking(stage, system, { ...limits, maxBytes: bounded(folder, limits, system) });
    const pace = new Pace();
    for await (const entry of entries) {
      await pace.step();
      await unpacking.add(entry);
    }
    const closed = unpacking.finish();
    await mergeTree(stage, folder, system);
    closeFolders(closed, folder, system);
    return unpacking.result;
  } finally {
    await removeOwnTree(stage, system);
  }
}

function bounded(folder: FilePath, { maxBytes }: UnpackLimits, system: FileSystem): number {
  const { blocks, bfree, bsize } = system.room(folder);
  return blocks === 0 ? maxBytes : Math.min(maxBytes, bfree * bsize);
}

/** A directory that its owner may not write to: it gets its mode when it is in its place. */
interface ClosedFolder {
  readonly path: string;
  readonly mode: number;
  readonly ino: bigint;
}

/** But for those that were there before, which stay as they are. */
function closeFolders(closed: readonly ClosedFolder[], folder: FilePath, system: FileSystem): void {
  for (const { path, mode, ino } of closed.toReversed()) {
    const at = joined(folder, path);
    if (system.findLink(at)?.ino === ino) system.chmod(at, mode);
  }
}

class Unpacking {
  readonly result: Unpacked = { entries: 0, sizeBytes: 0 };
  readonly #stage: FilePath;
  readonly #system: FileSystem;
  readonly #limits: UnpackLimits;
  /** What has been made, by its path in the archive. */
  readonly #made = new Map<string, ArchiveEntry['type']>();
  readonly #folders = new Map<string, { mode: number; mtime: number }>();

  constructor(stage: FilePath, system: FileSystem, limits: UnpackLimits) {
    this.#stage = stage;
    this.#system = system;
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
    this.#makeParents(path);
    this.#makeRoom(path, entry.type);
    await this.#make(path, entry);
    this.#made.set(path, entry.type);
  }

  /** Folders get their modes and times when nothing is put in them any more. Those that come later, outermost first. */
  finish(): ClosedFolder[] {
    const closed: ClosedFolder[] = [];
    // Root may do without these bits, and what it changes by a path code could have led elsewhere.
    const needed = this.#system.user === 'root' ? 0 : OWNER_BITS;
    for (const [path, { mode, mtime }] of [...this.#folders].reverse()) {
      const at = joined(this.#stage, path);
      if ((mode & needed) !== needed) closed.unshift({ path, mode, ino: this.#system.lstat(at).ino });
      this.#system.chmod(at, mode | needed);
      this.#system.setTimes(at, mtime, mtime);
    }
    return closed;
  }

  async #make(path: string, entry: ArchiveEntry): Promise<void> {
    const at = joined(this.#stage, path);
    const { type, target, mode, mtime } = entry;
    switch (type) {
      case 'directory':
        if (!this.#made.has(path)) this.#system.mkdir(at, OWNER_BITS);
        this.#folders.set(path, { mode: mode & MODE_MASK || 0o755, mtime });
        return;
      case 'symlink':
        requireInnerLink(path, target);
        this.#system.symlink(Buffer.from(target, 'latin1'), at);
        return;
      case 'hardlink': {
        const first = entryPath(target);
        if (this.#made.get(first) !== 'file')
          throw refusedEntry(path, 'is a hard link to a file that does not precede it in the archive');
        this.#system.link(joined(this.#stage, first), at);
        return;
      }
      case 'file':
        await this.#writeFile(at, entry);
    }
  }

  async #writeFile(at: FilePath, { content, mode, mtime }: ArchiveEntry): Promise<void> {
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
    const fd = this.#system.open(at, flags, 0o600);
    try {
      const file = new QuickFile(fd);
      let bytes = 0;
      for await (const chunk of content) {
        this.result.sizeBytes += chunk.length;
        if (this.result.sizeBytes > this.#limits.maxBytes) throw tooLarge(this.#limits.maxBytes);
        await file.write(chunk, chunk.length, bytes);
        bytes += chunk.length;
      }
      this.#system.run(() => {
        this.#system.chmodOpen(fd, mode & MODE_MASK || 0o644);
        this.#system.setTimesOpen(fd, mtime, mtime);
      });
    } finally {
      closeQuietly(fd);
    }
  }

  #makeParents(path: string): void {
    const parent = posix.dirname(path);
    if (parent === '.') return;
    const type = this.#made.get(parent);
    if (type === 'directory') return;
    if (type !== undefined) throw refusedEntry(path, 'lies below an entry that is not a directory');
    this.#makeParents(parent);
    this.#system.mkdir(joined(this.#stage, parent), OWNER_BITS);
    this.#made.set(parent, 'directory');
    this.#folders.set(parent, { mode: 0o755, mtime: Date.now() / 1000 });
    if (this.#made.size > 2 * this.#limits.maxEntries) throw badArchive('it has too many directories');
  }

  /** The last of several entries of one name counts, as in archives that were added to. */
  #makeRoom(path: string, type: ArchiveEntry['type']): void {
    const before = this.#made.get(path);
    if (before === undefined || (before === 'directory' && type === 'directory')) return;
    if (before === 'directory' || type === 'directory')
      throw refusedEntry(path, 'occurs both as a directory and as a file');
    this.#system.unlink(joined(this.#stage, path));
  }
}

function tooLarge(maxBytes: number): AgentError {
  return new AgentError(
    'disk_full',
    `The archive does not fit: the disk of the sandbox has ${maxBytes} bytes free for it.`,
  );
}
