import { jsonBytes, onAbort } from '@cloche/node-support';
import { type AgentLogEntry, MAX_LOG_ENTRY_BYTES } from '@cloche/protocol';
import { incompleteTailBytes } from '../base/incomplete-tail.ts';
import type { StandardStream } from '../base/standard-stream.ts';
import { ENTRY_OVERHEAD_BYTES, type KeptEntry, LogFiles } from './log-files.ts';

/** Longest time that a small piece of output waits to be joined with others into one entry. */
const GATHER_MS = 2;
/** Most changes between the streams that are kept in order while output is gathered. */
const MAX_CHANGES = 8;
/** Bytes of the newest entries kept in memory. Older entries are written to disk; a short log stays in memory. */
const TAIL_BYTES = 128 * 1024;

/** Output of one stream that is not an entry yet. */
interface Gathered {
  readonly stream: StandardStream;
  readonly pieces: Buffer[];
  readonly at: number;
}

export interface LogPage {
  entries: AgentLogEntry[];
  hasMore: boolean;
}

/**
 * The output of a command, as entries numbered from 1 without gaps. The oldest entries are dropped beyond a limit, or
 * when the disk is full. A reader then gets one entry that says so, with the number of the last dropped entry.
 */
export class CommandLog {
  readonly #files: LogFiles;
  readonly #limitBytes: number;
  readonly #waiting = new Set<() => void>();
  /** First bytes of a character that is not complete yet, for each stream. */
  readonly #torn: Record<StandardStream, Buffer> = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) };
  #tail: KeptEntry[] = [];
  #tailBytes = 0;
  #lastSeq = 0;
  #ended = false;
  #droppedSeq = 0;
  #droppedBytes = 0;
  #gathered: Gathered[] = [];
  #gatheredBytes = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param folder used by this log alone; created on first use. */
  constructor(folder: string, limitBytes: number) {
    this.#files = new LogFiles(folder);
    this.#limitBytes = limitBytes;
  }

  /** Bytes on disk and in memory. */
  get bytes(): number {
    return this.#files.bytes + this.#tailBytes;
  }

  /** Appends output. Copies what it keeps of `bytes`. */
  push(stream: StandardStream, bytes: Buffer): void {
    let rest = Buffer.concat([this.#torn[stream], bytes]);
    const whole = rest.length - incompleteTailBytes(rest);
    this.#torn[stream] = rest.subarray(whole);
    rest = rest.subarray(0, whole);
    while (rest.length > 0) {
      const room = MAX_LOG_ENTRY_BYTES - this.#gatheredBytes;
      const head = rest.length <= room ? rest : cutAtCharacter(rest, room);
      if (head.length > 0) this.#gather(stream, head);
      else this.#flush();
      rest = rest.subarray(head.length);
    }
  }

  /** Ends the log. `push` must not be called afterwards. */
  end(): void {
    for (const stream of ['stdout', 'stderr'] as const) {
      const torn = this.#torn[stream];
      this.#torn[stream] = Buffer.alloc(0);
      if (torn.length > 0) this.#gather(stream, torn);
    }
    this.#flush();
    this.#ended = true;
    for (const wake of [...this.#waiting]) wake();
  }

  /** Returns entries after `afterSeq`: at most `limit`, about `maxBytes` as JSON, and at least one if there is one. */
  page(afterSeq: number, limit: number, maxBytes: number): LogPage {
    this.#flush();
    const entries: AgentLogEntry[] = [];
    if (afterSeq < this.#droppedSeq) entries.push(this.#marker());
    let after = Math.max(afterSeq, this.#droppedSeq);
    let left = maxBytes;
    while (after < this.#lastSeq && entries.length < limit && left > 0) {
      const found = this.#read(after, limit - entries.length, left);
      if (found.length === 0) {
        // Root of the sandbox has changed the files on disk.
        this.#dropFiles();
        if (entries.length === 0) entries.push(this.#marker());
        after = this.#droppedSeq;
        continue;
      }
      for (const entry of found.map(toEntry)) {
        if (left <= 0) break;
        left -= jsonBytes(entry.data) + ENTRY_OVERHEAD_BYTES;
        entries.push(entry);
        after = entry.seq;
      }
    }
    return { entries, hasMore: after < this.#lastSeq };
  }

  /** Resolves when there are entries after `afterSeq`, when the log has ended, or when `signal` aborts. */
  async waitBeyond(afterSeq: number, signal: AbortSignal): Promise<void> {
    this.#flush();
    if (this.#lastSeq > afterSeq || this.#ended || signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const wake = () => resolve();
    this.#waiting.add(wake);
    using _ = onAbort(signal, wake);
    await promise;
    this.#waiting.delete(wake);
  }

  /** Moves all entries from memory to disk, if the disk has room. */
  settle(): void {
    this.#flush();
    this.#spill(0);
  }

  /** Drops all entries, in memory and on disk. */
  drop(): void {
    this.#flush();
    this.#dropUpTo(this.#lastSeq, this.bytes);
    this.#files.drop();
    this.#tail = [];
    this.#tailBytes = 0;
  }

  #gather(stream: StandardStream, bytes: Buffer): void {
    const last = this.#gathered.at(-1);
    if (last?.stream === stream) last.pieces.push(bytes);
    else this.#gathered.push({ stream, pieces: [bytes], at: Date.now() });
    this.#gatheredBytes += bytes.length;
    if (this.#gatheredBytes >= MAX_LOG_ENTRY_BYTES) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), GATHER_MS);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#gathered.length === 0) return;
    for (const { stream, pieces, at } of inFewEntries(this.#gathered)) {
      this.#lastSeq += 1;
      const entry: KeptEntry = { seq: this.#lastSeq, stream, at, bytes: Buffer.concat(pieces) };
      this.#tail.push(entry);
      this.#tailBytes += entry.bytes.length + ENTRY_OVERHEAD_BYTES;
    }
    this.#gathered = [];
    this.#gatheredBytes = 0;
    if (this.#tailBytes > TAIL_BYTES) this.#spill(TAIL_BYTES / 2);
    for (const wake of [...this.#waiting]) wake();
  }

  /** Moves the oldest entries from memory to disk, until at most `keepBytes` remain in memory. */
  #spill(keepBytes: number): void {
    let count = 0;
    let bytes = 0;
    while (count < this.#tail.length && this.#tailBytes - bytes > keepBytes) {
      bytes += (this.#tail[count]?.bytes.length ?? 0) + ENTRY_OVERHEAD_BYTES;
      count += 1;
    }
    if (count === 0) return;
    const old = this.#tail.slice(0, count);
    if (!this.#files.append(old)) {
      // The log of an ended command no longer grows, so it may stay in memory.
      if (keepBytes === 0) return;
      this.#dropFiles();
      this.#dropUpTo(old.at(-1)?.seq ?? 0, bytes);
    }
    this.#tail = this.#tail.slice(count);
    this.#tailBytes -= bytes;
    const dropped = this.#files.trim(this.#limitBytes);
    if (dropped) this.#dropUpTo(dropped.lastSeq, dropped.bytes);
  }

  #read(afterSeq: number, limit: number, maxBytes: number): KeptEntry[] {
    const firstInTail = this.#tail[0]?.seq ?? this.#lastSeq + 1;
    if (afterSeq + 1 < firstInTail) return this.#files.read(afterSeq, limit, maxBytes);
    const found: KeptEntry[] = [];
    let left = maxBytes;
    for (const entry of this.#tail.slice(afterSeq + 1 - firstInTail)) {
      if (found.length >= limit || left <= 0) break;
      left -= entry.bytes.length + ENTRY_OVERHEAD_BYTES;
      found.push(entry);
    }
    return found;
  }

  #dropFiles(): void {
    this.#dropUpTo((this.#tail[0]?.seq ?? this.#lastSeq + 1) - 1, this.#files.bytes);
    this.#files.drop();
  }

  #dropUpTo(seq: number, bytes: number): void {
    this.#droppedSeq = Math.max(this.#droppedSeq, seq);
    this.#droppedBytes += bytes;
  }

  #marker(): AgentLogEntry {
    const data = `[cloche: ${this.#droppedBytes} bytes dropped from the start of the log]\n`;
    return { seq: this.#droppedSeq, stream: 'system', data, at: Date.now() };
  }
}

/**
 * Joins what each stream printed if they took turns more often than a reader needs to see: single bytes to both in turn
 * would be one entry each.
 */
function inFewEntries(gathered: readonly Gathered[]): Gathered[] {
  if (gathered.length <= MAX_CHANGES) return [...gathered];
  const byStream = new Map<StandardStream, Gathered>();
  for (const { stream, pieces, at } of gathered) {
    const joined = byStream.get(stream) ?? { stream, pieces: [], at };
    for (const piece of pieces) joined.pieces.push(piece);
    byStream.set(stream, joined);
  }
  return [...byStream.values()];
}

/** Returns the beginning of `bytes`: at most `room` bytes, without an incomplete character at the end. */
function cutAtCharacter(bytes: Buffer, room: number): Buffer {
  const head = bytes.subarray(0, room);
  return head.subarray(0, head.length - incompleteTailBytes(head));
}

function toEntry({ seq, stream, at, bytes }: KeptEntry): AgentLogEntry {
  return { seq, stream, data: bytes.toString('utf8'), at };
}
