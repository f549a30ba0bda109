import { posix } from 'node:path';
import type { AgentFile, AgentFileEvent, FileUser } from '@cloche/protocol';
import { FileError } from '@cloche/runtime';
import type { EventQueue } from './event-queue.ts';

export interface FakeEntry {
  readonly mode: number;
  readonly uid: number;
}

export interface FakeFile extends FakeEntry {
  readonly bytes: Buffer;
  readonly version: number;
}

export const UIDS: Readonly<Record<FileUser, number>> = { user: 1000, root: 0, 'root:user': 1000 };
/** Permission bits of the owner. Those of all others are six bits lower. */
export const READ = 0o400;
const WRITE = 0o200;
const SEARCH = 0o100;

export const WORKSPACE = '/workspace';

/** The files and directories that all users of a fake instance share. */
export class FakeDisk {
  readonly files = new Map<string, FakeFile>();
  readonly directories = new Map<string, FakeEntry>([
    ['/', { uid: 0, mode: 0o755 }],
    ['/root', { uid: 0, mode: 0o700 }],
    [WORKSPACE, { uid: 1000, mode: 0o755 }],
  ]);
  readonly watches = new Set<EventQueue<AgentFileEvent>>();
  /** The latest attempt to unpack the archive of each workspace run, and how it is ended. */
  readonly attempts = new Map<string, { readonly attempt: number; readonly end: (reason: Error) => void }>();
  versions = 0;

  /** Returns a disk with the same files, which changes on its own. */
  copy(): FakeDisk {
    const copy = new FakeDisk();
    for (const [path, file] of this.files) copy.files.set(path, { ...file });
    for (const [path, entry] of this.directories) copy.directories.set(path, { ...entry });
    copy.versions = this.versions;
    return copy;
  }
}

/** The disk of a fake instance with the rights of one user. */
export class FakeDiskView {
  readonly #disk: FakeDisk;
  readonly #user: FileUser;

  constructor(disk: FakeDisk, user: FileUser) {
    this.#disk = disk;
    this.#user = user;
  }

  get(path: string): FakeFile {
    const at = this.resolve(path);
    const file = this.#disk.files.get(at);
    if (file) return file;
    this.describe(at);
    throw new FileError('conflict', `${at} is a directory`);
  }

  /** Returns the absolute path. Throws for an invalid path, or one that leads through a file. */
  resolve(path: string): string {
    const isNone = path === '' || path.includes('\0') || path.split('/').some((name) => Buffer.byteLength(name) > 255);
    if (isNone) throw new FileError('invalid_path', 'the path is invalid');
    const at = posix.resolve(WORKSPACE, path);
    for (let above = posix.dirname(at); above !== '/'; above = posix.dirname(above)) {
      if (this.#disk.files.has(above)) throw new FileError('conflict', `${at} leads through a file`);
      const folder = this.#disk.directories.get(above);
      if (folder) this.require(SEARCH, folder, path);
    }
    return at;
  }

  entry(at: string): FakeEntry | undefined {
    return this.#disk.files.get(at) ?? this.#disk.directories.get(at);
  }

  /** Throws unless the user may write to the directory, or to the one in which it will be created. */
  requireWritable(folder: string, path: string): void {
    let there = folder;
    while (!this.#disk.directories.has(there)) there = posix.dirname(there);
    this.require(WRITE, this.#disk.directories.get(there), path);
  }

  require(bit: number, entry: FakeEntry | undefined, path: string): void {
    if (this.#user !== 'user' || !entry) return;
    const granted = entry.uid === UIDS.user ? entry.mode & bit : entry.mode & (bit >> 6);
    if (granted !== 0) return;
    const at = posix.resolve(WORKSPACE, path);
    throw new FileError('permission_denied', `${at} is closed to the user of the sandbox`, { path: at });
  }

  addDirectories(at: string): void {
    for (let above = at; above !== '/'; above = posix.dirname(above)) {
      if (!this.#disk.directories.has(above)) {
        this.#disk.directories.set(above, { uid: UIDS[this.#user], mode: 0o755 });
      }
    }
  }

  /** Returns the entries below a directory, sorted. A directory precedes its entries. */
  below(at: string): string[] {
    const prefix = at === '/' ? at : `${at}/`;
    const paths = [...this.#disk.files.keys(), ...this.#disk.directories.keys()];
    // Compares part by part: a slash sorts before any other character.
    return paths
      .filter((path) => path.startsWith(prefix) && path !== at)
      .sort((one, other) => (one.replaceAll('/', '\0') < other.replaceAll('/', '\0') ? -1 : 1));
  }

  describe(at: string): AgentFile {
    const file = this.#disk.files.get(at);
    if (file) return describeFile(at, file);
    const folder = this.#disk.directories.get(at);
    if (!folder) throw new FileError('not_found', `${at} does not exist`);
    const { uid, mode } = folder;
    return { path: at, name: posix.basename(at), type: 'directory', sizeBytes: 0, mode, uid, gid: uid, modifiedMs: 0 };
  }
}

export function etagOf(version: number): string {
  return `"${version.toString(16)}"`;
}

export function describeFile(path: string, { bytes, mode, uid, version }: FakeFile): AgentFile {
  return {
    path,
    name: posix.basename(path),
    type: 'file',
    sizeBytes: bytes.length,
    mode,
    uid,
    gid: uid,
    modifiedMs: 0,
    etag: etagOf(version),
  };
}
