import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import type { AgentFile, AgentFileEvent, AgentUnpacked } from '@cloche/protocol';
import {
  type AgentFiles,
  type FileContent,
  FileFault,
  type FileSource,
  type FileTransfer,
  type ReadOptions,
  type WriteOptions,
} from '@cloche/server/runtime-driver';
import { EventQueue } from './event-queue.ts';

interface FakeFile {
  readonly bytes: Buffer;
  readonly mode: number;
  readonly version: number;
}

/** In an archive: a name, and its content in Base64. */
type PackedFile = [name: string, base64: string | null];

const NEW_FILE_MODE = 0o644;
const WORKSPACE = '/workspace';
/** What is announced to be larger is refused; what is not announced is not counted. */
const DISK_BYTES = 2 ** 40;

/** The files of a fake instance, in memory: no links, nor anything else that is neither file nor directory. */
export class FakeFiles implements AgentFiles {
  readonly #files = new Map<string, FakeFile>();
  readonly #directories = new Set(['/', WORKSPACE]);
  readonly #requireAlive: () => void;
  readonly #watches = new Set<EventQueue<AgentFileEvent>>();
  #versions = 0;

  constructor(requireAlive: () => void) {
    this.#requireAlive = requireAlive;
  }

  async read(path: string, { headers = {}, headOnly }: ReadOptions): Promise<FileContent> {
    this.#requireAlive();
    const { bytes, version } = this.#get(path);
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
    const before = this.#files.get(at);
    const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers;
    const etag = before && etagOf(before.version);
    if (ifMatch !== undefined && !names(ifMatch, etag)) throw conditionFailed();
    if (ifNoneMatch !== undefined && names(ifNoneMatch, etag)) throw conditionFailed();
    if (this.#directories.has(at)) throw new FileFault('conflict', `${at} is a directory`);
    if ((source.sizeBytes ?? 0) > DISK_BYTES) throw new FileFault('disk_full', 'it does not fit');
    const bytes = await buffer(source.open());
    this.#requireAlive();
    const file = {
      bytes,
      mode: mode === undefined ? (before?.mode ?? NEW_FILE_MODE) : Number.parseInt(mode, 8),
      version: ++this.#versions,
    };
    this.#addDirectories(posix.dirname(at));
    this.#files.set(at, file);
    return describe(at, file);
  }

  async list(path: string, { depth, limit }: { depth: number; limit: number }): Promise<AgentFile[]> {
    this.#requireAlive();
    const at = this.#resolve(path);
    if (this.#describe(at).type === 'file') throw new FileFault('conflict', `${at} is no directory`);
    const below = this.#below(at).filter((other) => other.slice(at.length + 1).split('/').length <= depth);
    if (below.length > limit) throw new FileFault('too_many', `${at} has more than ${limit} entries`);
    return below.map((other) => this.#describe(other));
  }

  async stat(path: string): Promise<AgentFile> {
    this.#requireAlive();
    return this.#describe(this.#resolve(path));
  }

  async makeDirectory(path: string): Promise<AgentFile> {
    this.#requireAlive();
    const at = this.#resolve(path);
    if (this.#files.has(at)) throw new FileFault('conflict', `${at} is no directory`);
    this.#addDirectories(at);
    return this.#describe(at);
  }

  async move(transfer: FileTransfer): Promise<AgentFile> {
    const file = await this.copy(transfer);
    if (this.#resolve(transfer.from) !== file.path) await this.remove(transfer.from, { recursive: true });
    return file;
  }

  async copy({ from, to, overwrite }: FileTransfer): Promise<AgentFile> {
    this.#requireAlive();
    const [source, target] = [this.#resolve(from), this.#resolve(to)];
    this.#describe(source);
    const isTaken = this.#files.has(target) || this.#directories.has(target);
    if (isTaken && !overwrite) throw new FileFault('conflict', `${target} exists already`);
    if (source === target) return this.#describe(target);
    if (target.startsWith(`${source}/`)) throw new FileFault('conflict', `${target} lies in ${source}`);
    if (source.startsWith(`${target}/`)) throw new FileFault('conflict', `${target} holds ${source}`);
    if (isTaken) await this.remove(to, { recursive: true });
    this.#addDirectories(posix.dirname(target));
    for (const path of [source, ...this.#below(source)]) {
      const file = this.#files.get(path);
      if (file) this.#files.set(target + path.slice(source.length), { ...file, version: ++this.#versions });
      else this.#directories.add(target + path.slice(source.length));
    }
    return this.#describe(target);
  }

  async remove(path: string, { recursive }: { recursive: boolean }): Promise<AgentFile> {
    this.#requireAlive();
    const at = this.#resolve(path);
    const entry = this.#describe(at);
    if (`${WORKSPACE}/`.startsWith(at === '/' ? at : `${at}/`)) throw new FileFault('conflict', `${at} stays`);
    const below = this.#below(at);
    if (below.length > 0 && !recursive) throw new FileFault('conflict', `${at} is not empty`);
    for (const other of [at, ...below]) {
      this.#files.delete(other);
      this.#directories.delete(other);
    }
    return entry;
  }

  async watch(path: string, _options: unknown, signal: AbortSignal): Promise<AsyncIterable<AgentFileEvent>> {
    this.#requireAlive();
    this.#describe(this.#resolve(path));
    const queue = new EventQueue<AgentFileEvent>(() => this.#watches.delete(queue));
    this.#watches.add(queue);
    signal.addEventListener('abort', () => queue.fail(signal.reason), { once: true });
    return queue;
  }

  /** What every watch is told now. */
  tell(event: AgentFileEvent): void {
    for (const queue of this.#watches) queue.push(event);
  }

  /** No real archive: JSON of the names and contents, which `unarchive` takes; a directory has none. */
  async archive(path: string): Promise<Readable> {
    this.#requireAlive();
    const at = this.#resolve(path);
    const packed = this.#describe(at).type === 'file' ? [at] : this.#below(at);
    const contents = packed.map((each): PackedFile => {
      const name = each === at ? posix.basename(at) : each.slice(at.length + 1);
      return [name, this.#files.get(each)?.bytes.toString('base64') ?? null];
    });
    return Readable.from([Buffer.from(JSON.stringify(contents))]);
  }

  async unarchive(path: string, source: FileSource): Promise<AgentUnpacked> {
    const at = this.#resolve(path);
    const contents = unpack(await text(source.open()));
    this.#requireAlive();
    this.#addDirectories(at);
    let sizeBytes = 0;
    for (const [name, base64] of contents) {
      const place = posix.join(at, name);
      this.#addDirectories(base64 === null ? place : posix.dirname(place));
      if (base64 === null) continue;
      const bytes = Buffer.from(base64, 'base64');
      sizeBytes += bytes.length;
      this.#files.set(place, { bytes, mode: NEW_FILE_MODE, version: ++this.#versions });
    }
    return { file: this.#describe(at), entries: contents.length, sizeBytes };
  }

  #get(path: string): FakeFile {
    const at = this.#resolve(path);
    const file = this.#files.get(at);
    if (file) return file;
    this.#describe(at);
    throw new FileFault('conflict', `${at} is a directory`);
  }

  /** Absolute; nothing is below a file. */
  #resolve(path: string): string {
    const isNone = path === '' || path.includes('\0') || path.split('/').some((name) => Buffer.byteLength(name) > 255);
    if (isNone) throw new FileFault('invalid_path', 'the path is none');
    const at = posix.resolve(WORKSPACE, path);
    for (let above = posix.dirname(at); above !== '/'; above = posix.dirname(above)) {
      if (this.#files.has(above)) throw new FileFault('conflict', `${at} leads through a file`);
    }
    return at;
  }

  #addDirectories(at: string): void {
    for (let above = at; above !== '/'; above = posix.dirname(above)) this.#directories.add(above);
  }

  /** A directory comes before what it holds, which is sorted. */
  #below(at: string): string[] {
    const prefix = at === '/' ? at : `${at}/`;
    const paths = [...this.#files.keys(), ...this.#directories];
    // By their parts: a slash sorts before any other character.
    return paths
      .filter((path) => path.startsWith(prefix) && path !== at)
      .sort((one, other) => (one.replaceAll('/', '\0') < other.replaceAll('/', '\0') ? -1 : 1));
  }

  #describe(at: string): AgentFile {
    const file = this.#files.get(at);
    if (file) return describe(at, file);
    if (!this.#directories.has(at)) throw new FileFault('not_found', `${at} does not exist`);
    const owner = { uid: 1000, gid: 1000 };
    return {
      path: at,
      name: posix.basename(at),
      type: 'directory',
      sizeBytes: 0,
      mode: 0o755,
      ...owner,
      modifiedMs: 0,
    };
  }
}

function etagOf(version: number): string {
  return `"${version.toString(16)}"`;
}

/** Whether a condition's tags are those of the file. */
function names(tags: string, etag: string | undefined): boolean {
  return etag !== undefined && (tags === '*' || tags.split(',').some((tag) => tag.trim() === etag));
}

function conditionFailed(): FileFault {
  return new FileFault('precondition_failed', 'the file has another ETag');
}

/** `to` is exclusive; undefined for the whole. */
function rangeOf(range: string | undefined, size: number): { from: number; to: number } | undefined {
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/.exec(range ?? '') ?? [];
  if ((first === '' && last === '') || (first !== '' && last !== '' && Number(last) < Number(first))) return undefined;
  const from = first === '' ? Math.max(0, size - Number(last)) : Number(first);
  if (from >= size) throw new FileFault('range_not_satisfiable', 'the range begins after the end', size);
  return { from, to: first === '' || last === '' ? size : Math.min(Number(last) + 1, size) };
}

function unpack(archive: string): PackedFile[] {
  try {
    return JSON.parse(archive);
  } catch {
    throw new FileFault('bad_archive', 'it is no archive');
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

function describe(path: string, { bytes, mode, version }: FakeFile): AgentFile {
  return {
    path,
    name: posix.basename(path),
    type: 'file',
    sizeBytes: bytes.length,
    mode,
    uid: 1000,
    gid: 1000,
    modifiedMs: 0,
    etag: etagOf(version),
  };
}
