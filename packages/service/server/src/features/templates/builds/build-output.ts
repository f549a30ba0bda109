import type { TemplateBuildId } from '@cloche/contract';
import { pause } from '@cloche/node-support';
import { ENTRY_OVERHEAD_BYTES } from '../../../platform/sequence-log/sequence-log.ts';
import type { BuildLog, NewLogEntry } from './build-log.ts';

/** Longest time that output waits before it is written, and the size from which it is written at once. */
const FLUSH_MS = 200;
const FLUSH_BYTES = 64 * 1024;

/**
 * Gathers the output of a build and writes it to the log in batches. `add` waits while a batch is written, which slows
 * down a step that prints faster than the log can be written.
 */
export class BuildOutput implements AsyncDisposable {
  readonly #log: BuildLog;
  readonly #buildId: TemplateBuildId;
  readonly #stop = new AbortController();
  #entries: NewLogEntry[] = [];
  #bytes = 0;
  #writing: Promise<void> = Promise.resolve();
  #flushing: Promise<void> | undefined;

  constructor(log: BuildLog, buildId: TemplateBuildId) {
    this.#log = log;
    this.#buildId = buildId;
  }

  async add(entry: NewLogEntry): Promise<void> {
    this.#entries.push(entry);
    this.#bytes += Buffer.byteLength(entry.data) + ENTRY_OVERHEAD_BYTES;
    if (this.#bytes >= FLUSH_BYTES) return this.flush();
    this.#flushing ??= this.#flushSoon();
  }

  note(step: number, data: string): Promise<void> {
    return this.add({ step, stream: 'system', data });
  }

  /** Resolves when everything added before is in the log. */
  flush(): Promise<void> {
    const entries = this.#entries;
    this.#entries = [];
    this.#bytes = 0;
    this.#writing = this.#writing.then(() => this.#log.append(this.#buildId, entries));
    return this.#writing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.flush();
  }

  async #flushSoon(): Promise<void> {
    await pause(FLUSH_MS, this.#stop.signal);
    this.#flushing = undefined;
    // An error is reported by the next `add` or by the end, which wait for the same chain of writes.
    await this.flush().catch(() => undefined);
  }
}
