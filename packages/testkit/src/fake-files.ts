import { posix } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import type { AgentFile } from '@cloche/protocol';
import {
  type AgentFiles,
  type FileContent,
  FileFault,
  type FileSource,
  type ReadOptions,
  type WriteOptions,
} from '@cloche/server/runtime-driver';

interface FakeFile {
  readonly bytes: Buffer;
  readonly mode: number;
  readonly version: number;
}

/** The files of a fake instance, in memory: whole files, no folders of their own, no links. */
export class FakeFiles implements AgentFiles {
  readonly #files = new Map<string, FakeFile>();
  readonly #requireAlive: () => void;
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

  #get(path: string): FakeFile {
    const at = absolute(path);
    const file = this.#files.get(at);
    if (file) return file;
    if ([...this.#files.keys()].some((other) => other.startsWith(`${at}/`))) {
      throw new FileFault('conflict', `${at} is a directory`);
    }
    throw new FileFault('not_found', `${at} does not exist`);
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
