/**
 * System calls on paths, with the rights of one user. They are synchronous (`rights.ts`): the system's caches answer
 * faster than a thread could be asked. Threads do what takes long (reading, writing, copying file content), with
 * descriptors that were opened with these rights.
 */
import {
  type BigIntStats,
  chmodSync,
  close,
  closeSync,
  constants,
  type FSWatcher,
  fchmodSync,
  fchownSync,
  fstatSync,
  futimesSync,
  lchownSync,
  linkSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  opendirSync,
  openSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmdirSync,
  type StatsFs,
  statfsSync,
  statSync,
  symlinkSync,
  unlinkSync,
  watch,
} from 'node:fs';
import type { FileUser } from '@cloche/protocol';
import { codeOf } from '../base/error-code.ts';
import { PermissionDeniedError } from './file-error.ts';
import { bytesOf, type FilePath } from './file-path.ts';
import type { Owner } from './owner.ts';
import type { Rights, Settled } from './rights.ts';

/** Linux's O_PATH: opens a file without reading or writing it. Node has no constant for it. */
const O_PATH = 0o10000000;
/** Size from which freeing a file's blocks takes longer than handing that work to a thread. */
const LARGE_BYTES = 1024n * 1024n;
/** Cast, because Node's type for directory names does not admit Latin-1 as encoding, although the function does. */
const LATIN1 = { encoding: 'latin1' as BufferEncoding };

export class FileSystem {
  readonly #rights: Rights;
  /** Owner of what is created or replaced, if it is not the user whose rights apply. */
  readonly owner: Owner | undefined;

  /** @param owner only with root's rights */
  constructor(rights: Rights, owner?: Owner) {
    this.#rights = rights;
    this.owner = owner;
  }

  get user(): FileUser {
    return this.#rights.user;
  }

  /** Makes several synchronous calls with one switch of rights, which is faster than a switch for each. */
  run<T>(act: () => Settled<T>): T {
    return this.#rights.run(act);
  }

  lstat(path: FilePath): BigIntStats {
    return this.#at(path, (bytes) => lstatSync(bytes, { bigint: true }));
  }

  /** Returns the status of a file, not following a link; undefined if there is none. */
  findLink(path: FilePath): BigIntStats | undefined {
    return this.#at(path, (bytes) => lstatSync(bytes, { bigint: true, throwIfNoEntry: false }));
  }

  stat(path: FilePath): BigIntStats {
    return this.#at(path, (bytes) => statSync(bytes, { bigint: true }));
  }

  /** Returns the status of a file, following links; undefined if there is none. */
  find(path: FilePath): BigIntStats | undefined {
    return this.#at(path, (bytes) => statSync(bytes, { bigint: true, throwIfNoEntry: false }));
  }

  /** Returns the sizes of the file system that contains `path`. */
  room(path: FilePath): StatsFs {
    return this.#at(path, (bytes) => statfsSync(bytes));
  }

  readlink(path: FilePath): Buffer {
    return this.#at(path, (bytes) => readlinkSync(bytes, 'buffer'));
  }

  realpath(path: FilePath): FilePath {
    return this.#at(path, (bytes) => realpathSync.native(bytes, LATIN1)) as FilePath;
  }

  /** Returns a descriptor that the caller has to close. */
  open(path: FilePath, flags: number, mode?: number): number {
    return this.#at(path, (bytes) => {
      const fd = openSync(bytes, flags, mode);
      if (flags & constants.O_CREAT) this.#giveAway(fd);
      return fd;
    });
  }

  /**
   * Yields the names in a directory, which threads read. Permissions are checked only when it is opened; some directories,
   * such as those of `/proc`, are refused to everybody only then when they are read.
   */
  async *namesIn(path: FilePath): AsyncGenerator<string, void> {
    const directory = this.#at(path, (bytes) => opendirSync(bytes as never, { ...LATIN1, bufferSize: 1024 }));
    try {
      for await (const { name } of directory) yield name;
    } catch (error) {
      throw this.#refusal(error, path);
    }
  }

  /** Reports the names of entries that change in a directory. Permissions are checked only now. */
  watch(path: FilePath, onChange: (name: Buffer | null) => void): FSWatcher {
    openNotifications();
    return this.#at(path, (bytes) => watch(bytes, { encoding: 'buffer' }, (_event, name) => onChange(name)));
  }

  mkdir(path: FilePath, mode?: number): void {
    this.#at(path, (bytes) => {
      mkdirSync(bytes, mode);
      if (!this.owner) return;
      // By a descriptor: a program may have put a link to another file in place of the directory.
      const fd = openSync(bytes, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
      this.#giveAway(fd);
      closeSync(fd);
    });
  }

  rmdir(path: FilePath): void {
    this.#at(path, (bytes) => rmdirSync(bytes));
  }

  unlink(path: FilePath): void {
    this.#at(path, (bytes) => this.#freeingLater(path, () => unlinkSync(bytes)));
  }

  /** @param isReplacing false if nothing is known to be at `to`, which saves looking at its size. */
  rename(from: FilePath, to: FilePath, isReplacing = true): void {
    const act = (bytes: Buffer) => renameSync(bytesOf(from), bytes);
    this.#at(to, (bytes) => (isReplacing ? this.#freeingLater(to, () => act(bytes)) : act(bytes)));
  }

  link(from: FilePath, to: FilePath): void {
    this.#at(to, (bytes) => linkSync(bytesOf(from), bytes));
  }

  symlink(target: Buffer, path: FilePath): void {
    this.#at(path, (bytes) => {
      symlinkSync(target, bytes);
      if (this.owner) lchownSync(bytes, this.owner.uid, this.owner.gid);
    });
  }

  chmod(path: FilePath, mode: number): void {
    this.#at(path, (bytes) => chmodSync(bytes, mode));
  }

  /** Sets times in seconds. Does not follow a link. */
  setTimes(path: FilePath, atime: number, mtime: number): void {
    this.#at(path, (bytes) => lutimesSync(bytes, atime, mtime));
  }

  /** Returns the status of an open file, given its descriptor. */
  statOpen(fd: number): BigIntStats {
    return fstatSync(fd, { bigint: true });
  }

  chmodOpen(fd: number, mode: number): void {
    this.run(() => fchmodSync(fd, mode));
  }

  /** Changes the owner. The system then clears the set-user-id and set-group-id bits. */
  chownOpen(fd: number, uid: bigint, gid: bigint): void {
    this.run(() => fchownSync(fd, Number(uid), Number(gid)));
  }

  setTimesOpen(fd: number, atime: number, mtime: number): void {
    this.run(() => futimesSync(fd, atime, mtime));
  }

  /** Gives what was just created to `owner`. */
  #giveAway(fd: number): void {
    if (this.owner) fchownSync(fd, this.owner.uid, this.owner.gid);
  }

  /** Calls `act`, which removes the last name of a large file. A thread frees the blocks of the file afterwards. */
  #freeingLater(path: FilePath, act: () => void): void {
    const size = lstatSync(bytesOf(path), { bigint: true, throwIfNoEntry: false })?.size ?? 0n;
    const held = size < LARGE_BYTES ? undefined : openSync(bytesOf(path), O_PATH | constants.O_NOFOLLOW);
    try {
      act();
    } finally {
      if (held !== undefined) close(held);
    }
  }

  #at<T>(path: FilePath, act: (bytes: Buffer) => Settled<T>): T {
    try {
      return this.#rights.run(() => act(bytesOf(path)));
    } catch (error) {
      throw this.#refusal(error, path);
    }
  }

  #refusal(error: unknown, path: FilePath): unknown {
    return ['EACCES', 'EPERM'].includes(codeOf(error) ?? '') ? new PermissionDeniedError(path, this.user) : error;
  }
}

/** Closes a descriptor and ignores errors. */
export function closeQuietly(fd: number): void {
  try {
    closeSync(fd);
  } catch {
    // An error in writing was already reported by the write.
  }
}

let hasNotifications = false;

/** Opens the descriptor that all watches share. Root opens it, so it does not count towards the user's limit. */
function openNotifications(): void {
  if (!hasNotifications) watch('/').close();
  hasNotifications = true;
}
