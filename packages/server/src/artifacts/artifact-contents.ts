import { pipeline, type Readable } from 'node:stream';
import type { Logger } from 'pino';
import type { RequestAudit } from '../audit/request-audit.ts';
import type { Clock } from '../base/clock.ts';
import type { Transaction } from '../db/transactions.ts';
import type { ArtifactRecord } from './artifact.ts';
import type { ArtifactRepository } from './artifact-repository.ts';
import type { ContentLocks } from './content-locks.ts';
import type { ArtifactStore } from './store/artifact-store.ts';
import { DigestCheck } from './store/digest-check.ts';
import type { Staged } from './store/staging.ts';

/** Minimum age of an orphan before its removal. A younger content may belong to a record that is about to be written. */
const ORPHAN_MS = 3_600_000;

export interface ArtifactContentsDeps {
  readonly store: ArtifactStore;
  readonly artifacts: ArtifactRepository;
  readonly locks: ContentLocks;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Stores the contents of artifacts, each content once. One decision about a content is made at a time, among all servers, so
 * that a content is not removed while another artifact starts to use it.
 */
export class ArtifactContents {
  readonly #deps: ArtifactContentsDeps;

  constructor(deps: ArtifactContentsDeps) {
    this.#deps = deps;
  }

  /**
   * Stores the content, then calls `insert`, which writes the record, so that every listed artifact can be read. If
   * `insert` rejects, the content stays only if another artifact has it. `insert` does its work in the transaction that it
   * gets, if it gets one, and may be called again.
   */
  async keep<T>(staged: Staged, insert: (tx: Transaction | undefined) => Promise<T>): Promise<T> {
    const { store, locks } = this.#deps;
    const { sha256 } = staged;
    for (let isNew = false; ; ) {
      // Outside of the lock, because an upload takes long.
      if (!(await store.has(sha256))) {
        // Removed before the record is written, it is stored again from its file.
        await store.put(staged.file, { ...staged, keepsFile: true });
        isNew = true;
      }
      try {
        const kept = await locks.run(sha256, async (tx) =>
          // The content may have been removed before the lock, with the last artifact that used it.
          (await store.has(sha256)) ? { value: await insert(tx) } : undefined,
        );
        if (kept) return kept.value;
      } catch (error) {
        if (isNew) await this.#removeUnused(sha256);
        throw error;
      }
    }
  }

  /**
   * Deletes the record, then the content if no other artifact uses it. A content left behind is removed as an orphan.
   */
  async release(record: ArtifactRecord, audit?: RequestAudit): Promise<ArtifactRecord | undefined> {
    const { artifacts, clock } = this.#deps;
    const deleted = await artifacts.markDeleted(record.id, clock.now(), audit);
    if (deleted) await this.#removeUnused(record.sha256);
    return deleted;
  }

  /**
   * Returns the bytes, or a range of them. A whole content is verified while it is read; the stream of a damaged
   * content fails before its end.
   * @throws ContentMissingError
   */
  async read(
    { sha256, sizeBytes }: ArtifactRecord,
    range: { start: number; end: number } | undefined,
    signal: AbortSignal,
  ): Promise<Readable> {
    const { store, log } = this.#deps;
    const source = await store.read(sha256, range, signal);
    if (range) return source;
    const check = new DigestCheck(sha256, sizeBytes);
    return pipeline(source, check, (error) => {
      if (error && !signal.aborted) log.error({ err: error, sha256 }, 'a content could not be read whole');
    });
  }

  /** Removes contents left behind by crashes, and returns how many. */
  async removeOrphans(): Promise<number> {
    const { store, artifacts, clock } = this.#deps;
    let removed = 0;
    for await (const { name: sha256, storedAt } of store.list()) {
      if (clock.now() - storedAt < ORPHAN_MS) continue;
      // Nearly all contents are used, and this spares them the lock.
      if (await artifacts.isContentUsed(sha256)) continue;
      if (await this.#removeUnused(sha256)) removed += 1;
    }
    return removed;
  }

  #removeUnused(sha256: string): Promise<boolean> {
    const { store, artifacts, locks } = this.#deps;
    return locks.run(sha256, async (tx) => {
      if (await artifacts.isContentUsed(sha256, tx)) return false;
      await store.remove(sha256);
      return true;
    });
  }
}
