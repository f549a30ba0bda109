import { closeSync, mkdirSync, openSync, readFileSync, rmSync, unlinkSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import type { StandardStream } from '../base/standard-stream.ts';

export interface KeptEntry {
  seq: number;
  stream: StandardStream;
  /** Milliseconds since the epoch. */
  at: number;
  bytes: Buffer;
}

/** Bytes added to the size of each entry, so that many tiny entries are bounded too. */
export const ENTRY_OVERHEAD_BYTES = 32;

const SEGMENT_BYTES = 1024 * 1024;
/** Bytes before an entry in a file: its stream (1), its time (6) and its length (4). */
const HEADER_BYTES = 11;

interface Segment {
  readonly path: string;
  readonly firstSeq: number;
  lastSeq: number;
  /** Includes the overhead of each entry. */
  bytes: number;
}

/** The older part of a log: consecutive entries in files of about a mebibyte. */
export class LogFiles {
  readonly #folder: string;
  #segments: Segment[] = [];
  /** Descriptor of the last segment. */
  #fd: number | undefined;
  #bytes = 0;

  constructor(folder: string) {
    this.#folder = folder;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Appends entries. Returns false if the disk refuses them: the last entry may be cut off then, so call `drop`. */
  append(entries: readonly KeptEntry[]): boolean {
    const [first] = entries;
    if (first === undefined) return true;
    try {
      const segment = this.#openSegment(first.seq);
      writeAll(this.#fd ?? -1, Buffer.concat(entries.flatMap((entry) => [header(entry), entry.bytes])));
      const bytes = entries.reduce((sum, entry) => sum + entry.bytes.length + ENTRY_OVERHEAD_BYTES, 0);
      segment.lastSeq = entries.at(-1)?.seq ?? segment.lastSeq;
      segment.bytes += bytes;
      this.#bytes += bytes;
      return true;
    } catch {
      return false;
    }
  }

  /** Deletes the oldest files until at most `limitBytes` remain. Returns what was dropped, or undefined for nothing. */
  trim(limitBytes: number): { lastSeq: number; bytes: number } | undefined {
    let dropped: { lastSeq: number; bytes: number } | undefined;
    while (this.#bytes > limitBytes && this.#segments.length > 1) {
      const segment = this.#segments.shift();
      if (segment === undefined) break;
      this.#bytes -= segment.bytes;
      remove(segment.path);
      dropped = { lastSeq: segment.lastSeq, bytes: (dropped?.bytes ?? 0) + segment.bytes };
    }
    return dropped;
  }

  /** Returns entries of one file, from the one after `afterSeq` on; none if the file can no longer be read. */
  read(afterSeq: number, limit: number, maxBytes: number): KeptEntry[] {
    const segment = this.#segments.find(({ lastSeq }) => lastSeq > afterSeq);
    if (segment === undefined) return [];
    const found: KeptEntry[] = [];
    let left = maxBytes;
    for (const entry of entriesOf(segment)) {
      if (found.length >= limit || left <= 0) break;
      if (entry.seq <= afterSeq) continue;
      left -= entry.bytes.length + ENTRY_OVERHEAD_BYTES;
      found.push(entry);
    }
    return found;
  }

  drop(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
    if (this.#segments.length > 0) rmSync(this.#folder, { recursive: true, force: true });
    this.#segments = [];
    this.#bytes = 0;
  }

  #openSegment(firstSeq: number): Segment {
    const last = this.#segments.at(-1);
    if (last !== undefined && last.bytes < SEGMENT_BYTES && this.#fd !== undefined) return last;
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    const path = join(this.#folder, String(firstSeq));
    this.#fd = openSync(path, 'w', 0o600);
    const segment = { path, firstSeq, lastSeq: firstSeq - 1, bytes: 0 };
    this.#segments.push(segment);
    return segment;
  }
}

/**
 * Yields the entries of a file. Reads the file whole, because it is small. Ends early at an entry that it cannot read,
 * because root of the sandbox can change the file.
 */
function* entriesOf({ path, firstSeq, lastSeq }: Segment): Generator<KeptEntry, void> {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch {
    return;
  }
  let at = 0;
  for (let seq = firstSeq; seq <= lastSeq && at + HEADER_BYTES <= bytes.length; seq++) {
    const length = bytes.readUInt32BE(at + 7);
    const start = at + HEADER_BYTES;
    const stream = bytes[at] === 1 ? 'stdout' : 'stderr';
    yield { seq, stream, at: bytes.readUIntBE(at + 1, 6), bytes: bytes.subarray(start, start + length) };
    at = start + length;
  }
}

function header({ stream, at, bytes }: KeptEntry): Buffer {
  const head = Buffer.alloc(HEADER_BYTES);
  head[0] = stream === 'stdout' ? 1 : 2;
  head.writeUIntBE(at, 1, 6);
  head.writeUInt32BE(bytes.length, 7);
  return head;
}

function writeAll(fd: number, bytes: Buffer): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
}

function remove(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // Deleted already.
  }
}
