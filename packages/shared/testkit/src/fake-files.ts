import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { onAbort } from '@cloche/node-support';
import type { AgentFile, AgentFileEvent, AgentUnpacked, ArchiveAttempt, FileUser } from '@cloche/protocol';
import {
  AgentError,
  type AgentFiles,
  type ArchiveSource,
  type FileContent,
  FileError,
  type FileSource,
  type FileTransfer,
  type ReadOptions,
  type WriteOptions,
} from '@cloche/runtime';
import { EventQueue } from './event-queue.ts';
import { describeFile, etagOf, FakeDisk, FakeDiskView, READ, UIDS, WORKSPACE } from './fake-disk.ts';

/** A file in an archive: its name, and its content in Base64. */
type PackedFile = [name: string, base64: string | null];

const NEW_FILE_MODE = 0o644;
/** Largest announced size that is accepted. A size that is not announced is not checked. */
const DISK_BYTES = 2 ** 40;

/** The files of a fake instance, in memory. Only files and directories, no links. */
export class FakeFiles implements AgentFiles {
  readonly #disk: FakeDisk;
  readonly #view: FakeDiskView;
  readonly #user: FileUser;
  readonly #requireAlive: () => void;

  constructor(requireAlive: () => void, user: FileUser = 'user', disk = new FakeDisk()) {
    this.#requireAlive = requireAlive;
    this.#user = user;
    this.#disk = disk;
    this.#view = new FakeDiskView(disk, user);
  }

  as(user: FileUser = 'user'): FakeFiles {
    return user === this.#user ? this : new FakeFiles(this.#requireAlive, user, this.#disk);
  }

  async read(path: string, { headers = {}, headOnly }: ReadOptions): Promise<FileContent> {
    this.#requireAlive();
    const file = this.#view.get(path);
    this.#view.require(READ, file, path);
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
    const at = this.#view.resolve(path);
    const before = this.#disk.files.get(at);
    const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers;
    const etag = before && etagOf(before.version);
    if (ifMatch !== undefined && !names(ifMatch, etag)) throw conditionFailed();
    if (ifNoneMatch !== undefined && names(ifNoneMatch, etag)) throw conditionFailed();
    if (this.#disk.directories.has(at)) throw new FileError('conflict', `${at} is a directory`);
    if ((source.sizeBytes ?? 0) > DISK_BYTES) throw new FileError('disk_full', 'it does not fit');
    this.#view.requireWritable(posix.dirname(at), path);
    const bytes = await buffer(source.open());
    this.#requireAlive();
    const file = {
      bytes,
      uid: this.#user === 'root' && before ? before.uid : UIDS[this.#user],
      mode: mode === undefined ? (before?.mode ?? NEW_FILE_MODE) : Number.parseInt(mode, 8),
      version: ++this.#disk.versions,
    };
    this.#view.addDirectories(posix.dirname(at));
    this.#disk.files.set(at, file);
    return describeFile(at, file);
  }

  async *list(path: string, { depth, limit }: { depth: number; limit: number }): AsyncGenerator<AgentFile, void> {
    this.#requireAlive();
    const at = this.#view.resolve(path);
    if (this.#view.describe(at).type === 'file') throw new FileError('conflict', `${at} is no directory`);
    this.#view.require(READ, this.#disk.directories.get(at), path);
    const below = this.#view.below(at).filter((other) => other.slice(at.length + 1).split('/').length <= depth);
    if (below.length > limit) throw new FileError('too_many', `${at} has more than ${limit} entries`);
    yield* below.map((other) => this.#view.describe(other));
  }

  async stat(path: string): Promise<AgentFile> {
    this.#requireAlive();
    return this.#view.describe(this.#view.resolve(path));
  }

  async makeDirectory(path: string): Promise<AgentFile> {
    this.#requireAlive();
    const at = this.#view.resolve(path);
    if (this.#disk.files.has(at)) throw new FileError('conflict', `${at} is no directory`);
    if (!this.#disk.directories.has(at)) this.#view.requireWritable(posix.dirname(at), path);
    this.#view.addDirectories(at);
    return this.#view.describe(at);
  }

  async move(transfer: FileTransfer): Promise<AgentFile> {
    this.#view.requireWritable(posix.dirname(this.#view.resolve(transfer.from)), transfer.from);
    const file = await this.copy(transfer);
    if (this.#view.resolve(transfer.from) !== file.path) await this.remove(transfer.from, { recursive: true });
    return file;
  }

  async copy({ from, to, overwrite }: FileTransfer): Promise<AgentFile> {
    this.#requireAlive();
    const [source, target] = [this.#view.resolve(from), this.#view.resolve(to)];
    this.#view.describe(source);
    const isTaken = this.#disk.files.has(target) || this.#disk.directories.has(target);
    if (isTaken && !overwrite) throw new FileError('conflict', `${target} exists already`);
    if (source === target) return this.#view.describe(target);
    if (target.startsWith(`${source}/`)) throw new FileError('conflict', `${target} lies in ${source}`);
    if (source.startsWith(`${target}/`)) throw new FileError('conflict', `${target} holds ${source}`);
    this.#view.requireWritable(posix.dirname(target), to);
    for (const path of [source, ...this.#view.below(source)]) this.#view.require(READ, this.#view.entry(path), path);
    if (isTaken) await this.remove(to, { recursive: true });
    this.#view.addDirectories(posix.dirname(target));
    for (const path of [source, ...this.#view.below(source)]) {
      const file = this.#disk.files.get(path);
      const uid = UIDS[this.#user];
      const place = target + path.slice(source.length);
      if (file) this.#disk.files.set(place, { ...file, uid, version: ++this.#disk.versions });
      else this.#disk.directories.set(place, { uid, mode: 0o755 });
    }
    return this.#view.describe(target);
  }

  async remove(path: string, { recursive }: { recursive: boolean }): Promise<AgentFile> {
    this.#requireAlive();
    const at = this.#view.resolve(path);
    const entry = this.#view.describe(at);
    if (`${WORKSPACE}/`.startsWith(at === '/' ? at : `${at}/`)) throw new FileError('conflict', `${at} stays`);
    const below = this.#view.below(at);
    if (below.length > 0 && !recursive) throw new FileError('conflict', `${at} is not empty`);
    this.#view.requireWritable(posix.dirname(at), path);
    for (const other of below) this.#view.requireWritable(posix.dirname(other), posix.dirname(other));
    for (const other of [at, ...below]) {
      this.#disk.files.delete(other);
      this.#disk.directories.delete(other);
    }
    return entry;
  }

  async watch(path: string, _options: unknown, signal: AbortSignal): Promise<AsyncIterable<AgentFileEvent>> {
    this.#requireAlive();
    const at = this.#view.resolve(path);
    this.#view.describe(at);
    this.#view.require(READ, this.#view.entry(at), path);
    const queue = new EventQueue<AgentFileEvent>(() => this.#disk.watches.delete(queue));
    this.#disk.watches.add(queue);
    onAbort(signal, () => queue.fail(signal.reason));
    return queue;
  }

  /** Breaks the connection of every watch. */
  cutWatches(): void {
    for (const queue of this.#disk.watches) queue.fail(new AgentError('gone', 'the connection broke'));
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
    const at = this.#view.resolve(path);
    const packed = this.#view.describe(at).type === 'file' ? [at] : this.#view.below(at);
    for (const each of [at, ...packed]) this.#view.require(READ, this.#view.entry(each), each);
    const contents = packed.map((each): PackedFile => {
      const name = each === at ? posix.basename(at) : each.slice(at.length + 1);
      return [name, this.#disk.files.get(each)?.bytes.toString('base64') ?? null];
    });
    return Readable.from([Buffer.from(JSON.stringify(contents))]);
  }

  async unarchive(path: string, source: ArchiveSource): Promise<AgentUnpacked> {
    const at = this.#view.resolve(path);
    const superseded = Promise.withResolvers<never>();
    if (source.attempt) this.#begin(source.attempt, superseded.reject);
    const contents = unpack(await Promise.race([text(source.open()), superseded.promise]));
    this.#requireAlive();
    this.#view.requireWritable(at, path);
    this.#view.addDirectories(at);
    let sizeBytes = 0;
    for (const [name, base64] of contents) {
      const place = posix.join(at, name);
      this.#view.addDirectories(base64 === null ? place : posix.dirname(place));
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
    return { file: this.#view.describe(at), entries: contents.length, sizeBytes };
  }

  /** Ends the earlier attempts of a run. Throws `conflict` if a later one is known. */
  #begin({ runId, attempt }: ArchiveAttempt, end: (reason: Error) => void): void {
    const earlier = this.#disk.attempts.get(runId);
    const superseded = new FileError('conflict', 'the archive of the run is unpacked by a later attempt');
    if (earlier && earlier.attempt > attempt) throw superseded;
    earlier?.end(superseded);
    this.#disk.attempts.set(runId, { attempt, end });
  }
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
