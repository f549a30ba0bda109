import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
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

/** The files of a fake instance, in memory: no links, and a directory is there where it was made or something is in it. */
export class FakeFiles implements AgentFiles {
  readonly #files = new Map<string, FakeFile>();
  readonly #directories = new Set(['/workspace']);
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
    requireMatch(headers, etag);
    if (headers['if-none-match'] === etag) return content(304, Buffer.alloc(0), etag);
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(headers.range ?? '') ?? [];
    if (first === undefined) return content(200, bytes, etag, headOnly);
    if (Number(first) >= bytes.length) {
      throw new FileFault('range_not_satisfiable', 'the range begins after the end', bytes.length);
    }
    const end = last === '' ? bytes.length : Math.min(Number(last) + 1, bytes.length);
    const part = bytes.subarray(Number(first), end);
    return { ...content(206, part, etag, headOnly), contentRange: `bytes ${first}-${end - 1}/${bytes.length}` };
  }

  async write(path: string, source: FileSource, { headers = {}, mode }: WriteOptions): Promise<AgentFile> {
    this.#requireAlive();
    const at = absolute(path);
    const before = this.#files.get(at);
    requireMatch(headers, before && etagOf(before.version));
    if (this.#isDirectory(at)) throw new FileFault('conflict', `${at} is a directory`);
    const bytes = await buffer(source.open());
    this.#requireAlive();
    const file = {
      bytes,
      mode: mode === undefined ? (before?.mode ?? 0o644) : Number.parseInt(mode, 8),
      version: ++this.#versions,
    };
    this.#files.set(at, file);
    return describe(at, file);
  }

  async list(path: string, { depth, limit }: { depth: number; limit: number }): Promise<AgentFile[]> {
    this.#requireAlive();
    const at = absolute(path);
    if (this.#files.has(at)) throw new FileFault('conflict', `${at} is no directory`);
    if (!this.#isDirectory(at)) throw new FileFault('not_found', `${at} does not exist`);
    const below = this.#below(at).filter((other) => other.slice(at.length + 1).split('/').length <= depth);
    if (below.length > limit) throw new FileFault('too_many', `${at} has more than ${limit} entries`);
    return below.map((other) => this.#describe(other));
  }

  async stat(path: string): Promise<AgentFile> {
    this.#requireAlive();
    return this.#describe(absolute(path));
  }

  async makeDirectory(path: string): Promise<AgentFile> {
    this.#requireAlive();
    const at = absolute(path);
    if (this.#files.has(at)) throw new FileFault('conflict', `${at} is no directory`);
    this.#directories.add(at);
    return this.#describe(at);
  }

  async move(transfer: FileTransfer): Promise<AgentFile> {
    const file = await this.copy(transfer);
    await this.remove(transfer.from, { recursive: true });
    return file;
  }

  async copy({ from, to, overwrite }: FileTransfer): Promise<AgentFile> {
    this.#requireAlive();
    const [source, target] = [absolute(from), absolute(to)];
    this.#describe(source);
    if (`${target}/`.startsWith(`${source}/`)) throw new FileFault('conflict', `${target} lies in ${source}`);
    const isTaken = this.#files.has(target) || this.#isDirectory(target);
    if (isTaken && !overwrite) throw new FileFault('conflict', `${target} exists already`);
    if (isTaken) await this.remove(to, { recursive: true });
    for (const path of [source, ...this.#below(source)]) {
      const file = this.#files.get(path);
      if (file) this.#files.set(target + path.slice(source.length), { ...file, version: ++this.#versions });
      else this.#directories.add(target + path.slice(source.length));
    }
    return this.#describe(target);
  }

  async remove(path: string, { recursive }: { recursive: boolean }): Promise<AgentFile> {
    this.#requireAlive();
    const at = absolute(path);
    const entry = this.#describe(at);
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
    this.#describe(absolute(path));
    const queue = new EventQueue<AgentFileEvent>(() => this.#watches.delete(queue));
    this.#watches.add(queue);
    signal.addEventListener('abort', () => queue.fail(signal.reason), { once: true });
    return queue;
  }

  /** What every watch is told now. */
  tell(event: AgentFileEvent): void {
    for (const queue of this.#watches) queue.push(event);
  }

  /** No real archive: JSON of the names and contents, which `unarchive` takes. */
  async archive(path: string): Promise<Readable> {
    this.#requireAlive();
    const at = absolute(path);
    this.#describe(at);
    const contents = [at, ...this.#below(at)].flatMap((each) => {
      const file = this.#files.get(each);
      const name = each === at ? posix.basename(at) : each.slice(at.length + 1);
      return file ? [[name, file.bytes.toString('base64')]] : [];
    });
    return Readable.from([Buffer.from(JSON.stringify(contents))]);
  }

  async unarchive(path: string, source: FileSource): Promise<AgentUnpacked> {
    const contents = JSON.parse((await buffer(source.open())).toString()) as [string, string][];
    this.#requireAlive();
    const at = absolute(path);
    this.#directories.add(at);
    let sizeBytes = 0;
    for (const [name, base64] of contents) {
      const bytes = Buffer.from(base64, 'base64');
      sizeBytes += bytes.length;
      this.#files.set(posix.join(at, name), { bytes, mode: 0o644, version: ++this.#versions });
    }
    return { file: this.#describe(at), entries: contents.length, sizeBytes };
  }

  #get(path: string): FakeFile {
    const at = absolute(path);
    const file = this.#files.get(at);
    if (file) return file;
    if (this.#isDirectory(at)) throw new FileFault('conflict', `${at} is a directory`);
    throw new FileFault('not_found', `${at} does not exist`);
  }

  #isDirectory(at: string): boolean {
    return this.#directories.has(at) || this.#below(at).length > 0;
  }

  /** Every path below `at`, the directories that nobody made among them. */
  #below(at: string): string[] {
    const paths = [...this.#files.keys(), ...this.#directories].filter((path) => path.startsWith(`${at}/`));
    const between = paths.flatMap((path) => {
      const parts = path.slice(at.length + 1).split('/');
      return parts.map((_, index) => `${at}/${parts.slice(0, index + 1).join('/')}`);
    });
    return [...new Set(between)].sort();
  }

  #describe(at: string): AgentFile {
    const file = this.#files.get(at);
    if (file) return describe(at, file);
    if (!this.#isDirectory(at)) throw new FileFault('not_found', `${at} does not exist`);
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

function absolute(path: string): string {
  return posix.resolve('/workspace', path);
}

function etagOf(version: number): string {
  return `"${version.toString(16)}"`;
}

function requireMatch(headers: Readonly<Record<string, string>>, etag: string | undefined): void {
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers;
  const differs = ifMatch !== undefined && (etag === undefined || (ifMatch !== '*' && ifMatch !== etag));
  if (differs || (ifNoneMatch === '*' && etag !== undefined)) {
    throw new FileFault('precondition_failed', 'the file has another ETag');
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
