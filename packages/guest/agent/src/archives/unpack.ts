/**
 * Unpacks an untrusted archive. The entries are first created in a hidden folder inside the target folder. They are
 * moved into place only after the whole archive has passed all checks.
 */
import { constants, writeSync } from 'node:fs';
import { type ArchiveEntry, ArchiveTree, type PlacedEntry } from '@cloche/archive';
import { TimeSlice } from '@cloche/node-support';
import { AgentError } from '../base/agent-error.ts';
import { AdaptiveFile } from '../files/adaptive-file.ts';
import { below, type FilePath, joined } from '../files/file-path.ts';
import { closeQuietly, type FileSystem } from '../files/file-system.ts';
import { removeOwnTree } from '../files/remove-tree.ts';
import { temporaryIn } from '../files/temporary.ts';
import { mergeTree } from './merge-tree.ts';

export interface UnpackLimits {
  readonly maxEntries: number;
  /** Sum over all files. The free space of the disk is a further limit. */
  readonly maxBytes: number;
}

export interface Unpacked {
  entries: number;
  /** Sum over all files. */
  sizeBytes: number;
}

/** Permission bits taken from an archive: without set-user-id, set-group-id and sticky, which an attacker could use. */
const MODE_MASK = 0o777;
/**
 * Entries in memory that are made with one switch of rights, because switching takes as long as writing a small file.
 */
const AT_ONCE = 32;
const NEW_FILE = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
/** Permission bits that the owner of a directory needs to move it and its content. */
const OWNER_BITS = 0o700;

/**
 * Unpacks groups of entries into `folder`, which must exist. Files replace files; folders are merged. Everything
 * belongs to the user whose rights `system` has. Throws `bad_archive`, `conflict` or `disk_full`, and then changes
 * nothing. Throws the reason of `signal` once it has aborted, and then changes nothing more: entries that were moved
 * into place before stay.
 */
export async function unpack(
  groups: AsyncIterable<readonly ArchiveEntry[]>,
  folder: FilePath,
  system: FileSystem,
  limits: UnpackLimits,
  signal: AbortSignal,
): Promise<Unpacked> {
  // Inside `folder`, because `folder` may be a mount point and renames cannot cross file systems.
  const stage = temporaryIn(folder);
  // SECURITY: code of the same user can plant a link in the stage while it is filled. The link leads only where that
  // user may write anyway (e2e/security/file-rights.test.ts).
  system.mkdir(stage, OWNER_BITS);
  try {
    const unpacking = new Unpacking(stage, system, { ...limits, maxBytes: bounded(folder, limits, system) });
    const timeSlice = new TimeSlice();
    for await (const group of groups) {
      for (let at = 0, entry = group[0]; entry; entry = group[at]) {
        await timeSlice.yieldIfOver();
        signal.throwIfAborted();
        at += entry.bytes === undefined ? await unpacking.addLarge(entry) : unpacking.addSmall(group, at);
      }
    }
    const closed = reopenFolders(unpacking.finish(), stage, folder, system);
    try {
      await mergeTree(stage, folder, system, signal);
    } finally {
      closeFolders(closed, folder, system);
    }
    return unpacking.result;
  } finally {
    await removeOwnTree(stage, system);
  }
}

function bounded(folder: FilePath, { maxBytes }: UnpackLimits, system: FileSystem): number {
  const { blocks, bfree, bsize } = system.room(folder);
  return blocks === 0 ? maxBytes : Math.min(maxBytes, bfree * bsize);
}

/** A directory that its owner may not write to. It gets its final mode after it has been moved into place. */
interface ClosedFolder {
  readonly path: string;
  readonly mode: number;
  readonly ino: bigint;
}

/**
 * Opens the folders in place that are closed as in the archive, so that an archive can be unpacked over itself. Returns
 * `closed` with these in place of the ones in `stage`.
 */
function reopenFolders(
  closed: readonly ClosedFolder[],
  stage: FilePath,
  folder: FilePath,
  system: FileSystem,
): ClosedFolder[] {
  const owner = system.lstat(stage).uid;
  return closed.map((each) => {
    const at = joined(folder, each.path);
    const found = system.findLink(at);
    if (!found?.isDirectory() || found.uid !== owner || Number(found.mode) % 0o1000 !== each.mode) return each;
    system.chmod(at, each.mode | OWNER_BITS);
    return { ...each, ino: found.ino };
  });
}

/** Sets the modes of closed folders. Skips other folders that existed before; those keep their modes. */
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
  readonly #tree: ArchiveTree;
  readonly #folders = new Map<string, { mode: number; mtime: number }>();

  constructor(stage: FilePath, system: FileSystem, limits: UnpackLimits) {
    this.#stage = stage;
    this.#system = system;
    this.#limits = limits;
    this.#tree = new ArchiveTree(limits.maxEntries);
  }

  /** Makes entries of a group from `from` on that are in memory, at most `AT_ONCE`. Returns how many. */
  addSmall(group: readonly ArchiveEntry[], from: number): number {
    return this.#system.run(() => {
      for (let done = 0; done < AT_ONCE; done += 1) {
        const entry = group[from + done];
        if (entry?.bytes === undefined) return done;
        const at = this.#place(entry);
        if (at !== undefined) this.#writeSmallFile(at, entry, entry.bytes);
      }
      return AT_ONCE;
    });
  }

  /** Makes an entry whose content is a stream. Returns 1, the number of entries. */
  async addLarge(entry: ArchiveEntry): Promise<1> {
    const at = this.#place(entry);
    if (at !== undefined) await this.#writeFile(at, entry);
    return 1;
  }

  /** Makes an entry and the folders above it. Returns the path of a file, whose content is to be written. */
  #place(entry: ArchiveEntry): FilePath | undefined {
    this.result.entries += 1;
    const placed = this.#tree.add(entry);
    // The target folder exists and keeps its mode.
    if (!placed) return undefined;
    for (const folder of placed.missingFolders) {
      this.#system.mkdir(below(this.#stage, folder), OWNER_BITS);
      this.#folders.set(folder, { mode: 0o755, mtime: Date.now() / 1000 });
    }
    const at = below(this.#stage, placed.path);
    if (placed.isThere && entry.type !== 'directory') this.#system.unlink(at);
    if (entry.type === 'file') return at;
    this.#make(at, placed, entry);
    return undefined;
  }

  /**
   * Sets the modes and times of folders, after all entries are in them. Returns the closed folders, outermost first.
   */
  finish(): ClosedFolder[] {
    const closed: ClosedFolder[] = [];
    // Root needs no owner bits. It must not change modes by path later either: code could have redirected the path.
    const needed = this.#system.user === 'root' ? 0 : OWNER_BITS;
    for (const [path, { mode, mtime }] of [...this.#folders].reverse()) {
      const at = below(this.#stage, path);
      this.#system.run(() => {
        if ((mode & needed) !== needed) closed.unshift({ path, mode, ino: this.#system.lstat(at).ino });
        this.#system.chmod(at, mode | needed);
        this.#system.setTimes(at, mtime, mtime);
      });
    }
    return closed;
  }

  #make(at: FilePath, { path, isThere, linkedFile }: PlacedEntry, { type, target, mode, mtime }: ArchiveEntry): void {
    switch (type) {
      case 'directory':
        if (!isThere) this.#system.mkdir(at, OWNER_BITS);
        this.#folders.set(path, { mode: mode & MODE_MASK || 0o755, mtime });
        return;
      case 'symlink':
        this.#system.symlink(Buffer.from(target, 'latin1'), at);
        return;
      case 'hardlink':
        this.#system.link(below(this.#stage, linkedFile ?? ''), at);
    }
  }

  async #writeFile(at: FilePath, { content, mode, mtime }: ArchiveEntry): Promise<void> {
    const fd = this.#system.open(at, NEW_FILE, 0o600);
    try {
      const file = new AdaptiveFile(fd);
      let position = 0;
      for await (const chunk of content) {
        this.#count(chunk);
        await file.write(chunk, chunk.length, position);
        position += chunk.length;
      }
      this.#describe(fd, mode, mtime);
    } finally {
      closeQuietly(fd);
    }
  }

  #writeSmallFile(at: FilePath, { mode, mtime }: ArchiveEntry, bytes: Buffer): void {
    this.#count(bytes);
    const fd = this.#system.open(at, NEW_FILE, 0o600);
    try {
      for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done);
      this.#describe(fd, mode, mtime);
    } finally {
      closeQuietly(fd);
    }
  }

  #describe(fd: number, mode: number, mtime: number): void {
    this.#system.run(() => {
      this.#system.chmodOpen(fd, mode & MODE_MASK || 0o644);
      this.#system.setTimesOpen(fd, mtime, mtime);
    });
  }

  #count({ length }: Buffer): void {
    this.result.sizeBytes += length;
    if (this.result.sizeBytes > this.#limits.maxBytes) throw tooLarge(this.#limits.maxBytes);
  }
}

function tooLarge(maxBytes: number): AgentError {
  return new AgentError(
    'disk_full',
    `The archive does not fit: the disk of the sandbox has ${maxBytes} bytes free for it.`,
  );
}
