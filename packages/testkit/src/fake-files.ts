import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { onAbort } from '@cloche/node-support';
import type { AgentFile, AgentFileEvent, AgentUnpacked, FileUser } from '@cloche/protocol';
import {
  type AgentFiles,
  type FileContent,
  FileError,
  type FileSource,
  type FileTransfer,
  type ReadOptions,
  type WriteOptions,
} from '@cloche/server/runtime-driver';
import { EventQueue } from './event-queue.ts';

interface FakeEntry {
  readonly mode: number;
  readonly uid: number;
}

interface FakeFile extends FakeEntry {
  readonly bytes: Buffer;
  readonly version: number;
}

const UIDS: Readonly<Record<FileUser, number>> = { user: 1000, root: 0 };
/** Permission bits of the owner. Those of all others are six bits lower. */
const [READ, WRITE, SEARCH] = [0o400, 0o200, 0o100];

/** A file in an archive: its name, and its content in Base64. */
type PackedFile = [name: string, base64: string | null];

const NEW_FILE_MODE = 0o644;
const WORKSPACE = '/workspace';
/** Largest announced size that is accepted. A size that is not announced is not checked. */
const DISK_BYTES = 2 ** 40;

/** The files and directories that all users of a fake instance share. */
class FakeDisk {
  readonly files = new Map<string, FakeFile>();
  readonly directories = new Map<string, FakeEntry>([
    ['/', { uid: 0, mode: 0o755 }],
    ['/root', { uid: 0, mode: 0o700 }],
    [WORKSPACE, { uid: 1000, mode: 0o755 }],
  ]);
  readonly watches = new Set<EventQueue<AgentFileEvent>>();
  versions = 0;
}

/** The files of a fake instance, in memory. Only files and directories, no links. */
export class FakeFiles implements AgentFiles {
  readonly #disk: FakeDisk;
  readonly #user: FileUser;
  readonly #requireAlive: () => void;

  constructor(requireAlive: () => void, user: FileUser = 'user', disk = new FakeDisk()) {
    this.#requireAlive = requireAlive;
    this.#user = user;
    this.#disk = disk;
  }

  as(user: FileUser = 'user'): FakeFiles {
    return user === this.#user ? this : new FakeFiles(this.#requireAlive, user, this.#disk);
  }

  async read(path: string, { headers = {}, headOnly }: ReadOptions): Promise<FileContent> {
    this.#requireAlive();
    const file = this.#get(path);
    this.#require(READ, file, path);
    const { bytes, version } = file;
    const etag = etagOf(version);
    const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers;
    if (ifMatch !== undefined && !names(ifMatch, etag)) throw conditionFailed();
    if (ifNoneMatch !== undefined && names(ifNoneMatch, etag)) return content(304, Buffer.alloc(0), etag);
    const range = headers['if-range'] === undefined || headers['if-range'] === etag ? headers.range : undefined;
    const { from, to } = rangeOf(range, bytes.length) ?? {};
    if (from === undefined) return content(200, bytes, etag, headOnly);
    const part = content(206, bytes.subarray(from, to), etag, headOnly);
    return { ...part, contentRange: `bytes ${from}-${(to ?? 0) - 1}/${bytes.length}` };
  }

  async write(path: string, source: FileSource, { headers = {}, mode }: WriteOptions): Promise<AgentFile> {
    this.#requireAlive();
    const at = this.#resolve(path);
    const before = this.#disk.files.get(at);
    const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers;
    const etag = before && etagOf(before.version);
    if (ifMatch !== undefined && !names(ifMatch, etag)) throw conditionFailed();
    if (ifNoneMatch !== undefined && names(ifNoneMatch, etag)) throw conditionFailed();
    if (this.#disk.directories.has(at)) throw new FileError('conflict', `${at} is a directory`);
    if ((source.sizeBytes ?? 0) > DISK_BYTES) throw new FileError('disk_full', 'it does not fit');
    this.#requireWritable(posix.dirname(at), path);
    const bytes = await buffer(source.open());
    this.#requireAlive();
    const file = {
      bytes,
      uid: this.#user === 'root' && before ? before.uid : UIDS[this.#user],
      mode: mode === undefined ? (before?.mode ?? NEW_FILE_MODE) : Number.parseInt(mode, 8),
      version: ++this.#disk.versions,
    };
    this.#addDirectories(posix.dirname(at));
    this.#disk.files.set(at, file);
    return describe(at, file);
  }

  async list(path: string, { depth, limit }: { depth: number; limit: number }): Promise<AgentFile[]> {
    this.#requireAlive();
    const at = this.#resolve(path);
    if (this.#describe(at).type === 'file') throw new FileError('conflict', `${at} is no directory`);
    this.#require(READ, this.#disk.directories.get(at), path);
    const below = this.#below(at).filter((other) => other.slice(at.length + 1).split('/').length <= depth);
    if (below.length > limit) throw new FileError('too_many', `${at} has more than ${limit} entries`);
    return below.map((other) => this.#describe(other));
  }

  async stat(path: string): Promise<AgentFile> {
    this.#requireAlive();
    return this.#describe(this.#resolve(path));
  }

  async makeDirectory(path: string): Promise<AgentFile> {
    this.#requireAlive();
    const at = this.#resolve(path);
    if (this.#disk.files.has(at)) throw new FileError('conflict', `${at} is no directory`);
    if (!this.#disk.directories.has(at)) this.#requireWritable(posix.dirname(at), path);
    this.#addDirectories(at);
    return this.#describe(at);
  }

  async move(transfer: FileTransfer): Promise<AgentFile> {
    this.#requireWritable(posix.dirname(this.#resolve(transfer.from)), transfer.from);
    const file = await this.copy(transfer);
    if (this.#resolve(transfer.from) !== file.path) await this.remove(transfer.from, { recursive: true });
    return file;
  }

  async copy({ from, to, overwrite }: FileTransfer): Promise<AgentFile> {
    this.#requireAlive();
    const [source, target] = [this.#resolve(from), this.#resolve(to)];
    this.#describe(source);
    const isTaken = this.#disk.files.has(target) || this.#disk.directories.has(target);
    if (isTaken && !overwrite) throw new FileError('conflict', `${target} exists already`);
    if (source === target) return this.#describe(target);
    if (target.startsWith(`${source}/`)) throw new FileError('conflict', `${target} lies in ${source}`);
    if (source.startsWith(`${target}/`)) throw new FileError('conflict', `${target} holds ${source}`);
    this.#requireWritable(posix.dirname(target), to);
    for (const path of [source, ...this.#below(source)]) this.#require(READ, this.#entry(path), path);
    if (isTaken) await this.remove(to, { recursive: true });
    this.#addDirectories(posix.dirname(target));
    for (const path of [source, ...this.#below(source)]) {
      const file = this.#disk.files.get(path);
      const uid = UIDS[this.#user];
      const place = target + path.slice(source.length);
      if (file) this.#disk.files.set(place, { ...file, uid, version: ++this.#disk.versions });
      else this.#disk.directories.set(place, { uid, mode: 0o755 });
    }
    return this.#describe(target);
  }

  async remove(path: string, { recursive }: { recursive: boolean }): Promise<AgentFile> {
    this.#requireAlive();
    const at = this.#resolve(path);
    const entry = this.#describe(at);
    if (`${WORKSPACE}/`.startsWith(at === '/' ? at : `${at}/`)) throw new FileError('conflict', `${at} stays`);
    const below = this.#below(at);
    if (below.length > 0 && !recursive) throw new FileError('conflict', `${at} is not empty`);
    this.#requireWritable(posix.dirname(at), path);
    for (const other of below) this.#requireWritable(posix.dirname(other), posix.dirname(other));
    for (const other of [at, ...below]) {
      this.#disk.files.delete(other);
      this.#disk.directories.delete(other);
    }
    return entry;
  }

  async watch(path: string, _options: unknown, signal: AbortSignal): Promise<AsyncIterable<AgentFileEvent>> {
    this.#requireAlive();
    const at = this.#resolve(path);
    this.#describe(at);
    this.#require(READ, this.#entry(at), path);
    const queue = new EventQueue<AgentFileEvent>(() => this.#disk.watches.delete(queue));
    this.#disk.watches.add(queue);
    onAbort(signal, () => queue.fail(signal.reason));
    return queue;
  }

  /** Sends an event to every watch. */
  tell(event: AgentFileEvent): void {
    for (const queue of this.#disk.watches) queue.push(event);
  }

  /**
   * Returns JSON of names and contents in place of a real archive. `unarchive` reads it. A directory has no content.
   */
  async archive(path: string): Promise<Readable> {
    this.#requireAlive();
    const at = this.#resolve(path);
    const packed = this.#describe(at).type === 'file' ? [at] : this.#below(at);
    for (const each of [at, ...packed]) this.#require(READ, this.#entry(each), each);
    const contents = packed.map((each): PackedFile => {
      const name = each === at ? posix.basename(at) : each.slice(at.length + 1);
      return [name, this.#disk.files.get(each)?.bytes.toString('base64') ?? null];
    });
    return Readable.from([Buffer.from(JSON.stringify(contents))]);
  }

  async unarchive(path: string, source: FileSource): Promise<AgentUnpacked> {
    const at = this.#resolve(path);
    const contents = unpack(await text(source.open()));
    this.#requireAlive();
    this.#requireWritable(at, path);
    this.#addDirectories(at);
    let sizeBytes = 0;
    for (const [name, base64] of contents) {
      const place = posix.join(at, name);
      this.#addDirectories(base64 === null ? place : posix.dirname(place));
      if (base64 === null) continue;
      const bytes = Buffer.from(base64, 'base64');
      sizeBytes += bytes.length;
      this.#disk.files.set(place, {
        bytes,
        uid: UIDS[this.#user],
        mode: NEW_FILE_MODE,
        version: ++this.#disk.versions,
      });
    }
    return { file: this.#describe(at), entries: contents.length, sizeBytes };
  }

  #get(path: string): FakeFile {
    const at = this.#resolve(path);
    const file = this.#disk.files.get(at);
    if (file) return file;
    this.#describe(at);
    throw new FileError('conflict', `${at} is a directory`);
  }

  /** Returns the absolute path. Throws for an invalid path, or one that leads through a file. */
  #resolve(path: string): string {
    const isNone = path === '' || path.includes('\0') || path.split('/').some((name) => Buffer.byteLength(name) > 255);
    if (isNone) throw new FileError('invalid_path', 'the path is invalid');
    const at = posix.resolve(WORKSPACE, path);
    for (let above = posix.dirname(at); above !== '/'; above = posix.dirname(above)) {
      if (this.#disk.files.has(above)) throw new FileError('conflict', `${at} leads through a file`);
      const folder = this.#disk.directories.get(above);
      if (folder) this.#require(SEARCH, folder, path);
    }
    return at;
  }

  #entry(at: string): FakeEntry | undefined {
    return this.#disk.files.get(at) ?? this.#disk.directories.get(at);
  }

  /** Throws unless the user may write to the directory, or to the one in which it will be created. */
  #requireWritable(folder: string, path: string): void {
    let there = folder;
    while (!this.#disk.directories.has(there)) there = posix.dirname(there);
    this.#require(WRITE, this.#disk.directories.get(there), path);
  }

  #require(bit: number, entry: FakeEntry | undefined, path: string): void {
    if (this.#user === 'root' || !entry) return;
    const granted = entry.uid === UIDS.user ? entry.mode & bit : entry.mode & (bit >> 6);
    if (granted !== 0) return;
    const at = posix.resolve(WORKSPACE, path);
    throw new FileError('permission_denied', `${at} is closed to the user of the sandbox`, { path: at });
  }

  #addDirectories(at: string): void {
    for (let above = at; above !== '/'; above = posix.dirname(above)) {
      if (!this.#disk.directories.has(above)) {
        this.#disk.directories.set(above, { uid: UIDS[this.#user], mode: 0o755 });
      }
    }
  }

  /** Returns the entries below a directory, sorted. A directory precedes its entries. */
  #below(at: string): string[] {
    const prefix = at === '/' ? at : `${at}/`;
    const paths = [...this.#disk.files.keys(), ...this.#disk.directories.keys()];
    // Compares part by part: a slash sorts before any other character.
    return paths
      .filter((path) => path.startsWith(prefix) && path !== at)
      .sort((one, other) => (one.replaceAll('/', '\0') < other.replaceAll('/', '\0') ? -1 : 1));
  }

  #describe(at: string): AgentFile {
    const file = this.#disk.files.get(at);
    if (file) return describe(at, file);
    const folder = this.#disk.directories.get(at);
    if (!folder) throw new FileError('not_found', `${at} does not exist`);
    const { uid, mode } = folder;
    return { path: at, name: posix.basename(at), type: 'directory', sizeBytes: 0, mode, uid, gid: uid, modifiedMs: 0 };
  }
}

function etagOf(version: number): string {
  return `"${version.toString(16)}"`;
}

/** Returns whether a condition's tags include the file's. */
function names(tags: string, etag: string | undefined): boolean {
  return etag !== undefined && (tags === '*' || tags.split(',').some((tag) => tag.trim() === etag));
}

function conditionFailed(): FileError {
  return new FileError('precondition_failed', 'the file has another ETag');
}

/** Returns the range, with `to` exclusive; undefined for the whole file. */
function rangeOf(range: string | undefined, size: number): { from: number; to: number } | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(range ?? '') ?? [];
  if ((first === '' && last === '') || (first !== '' && last !== '' && Number(last) < Number(first))) return undefined;
  const from = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  if (from >= size) throw new FileError('range_not_satisfiable', 'the range begins after the end', { sizeBytes: size });
  return { from, to: first === '' || last === '' ? size : Math.min(Number(last) + 1, size) };
}

function unpack(archive: string): PackedFile[] {
  try {
    return JSON.parse(archive);
  } catch {
    throw new FileError('bad_archive', 'it is no archive');
  }
}

function content(status: FileContent['status'], bytes: Buffer, etag: string, headOnly = false): FileContent {
  return {
    status,
    sizeBytes: status === 304 ? undefined : bytes.length,
    etag,
    contentRange: undefined,
    body: Readable.from(headOnly || bytes.length === 0 ? [] : [bytes]),
  };
}

function describe(path: string, { bytes, mode, uid, version }: FakeFile): AgentFile {
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
