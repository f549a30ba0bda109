import { pipeline, type Readable } from 'node:stream';
import { KeyedQueue } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { RequestAudit } from '../audit/request-audit.ts';
import type { Clock } from '../base/clock.ts';
import type { ArtifactRecord } from './artifact.ts';
import type { ArtifactRepository } from './artifact-repository.ts';
import type { ArtifactStore } from './store/artifact-store.ts';
import { DigestCheck } from './store/digest-check.ts';
import type { Staged } from './store/staging.ts';

/**
 * Minimum age of an orphan before its removal. A younger content may belong to a record that another server is about to
 * write.
 */
const ORPHAN_MS = 3_600_000;

/**
 * Stores the contents of artifacts, each content once. Changes to one content run one at a time, so that a content is
 * not removed while another artifact starts to use it.
 */
export class ArtifactContents {
  readonly #store: ArtifactStore;
  readonly #artifacts: ArtifactRepository;
  readonly #clock: Clock;
  readonly #log: Logger;
  /** Changes by the digest of the content. */
  readonly #changes = new KeyedQueue<string>();

  constructor(store: ArtifactStore, artifacts: ArtifactRepository, clock: Clock, log: Logger) {
    this.#store = store;
    this.#artifacts = artifacts;
    this.#clock = clock;
    this.#log = log;
  }

  /**
   * Stores the content, then calls `insert`, which writes the record, so that every listed artifact can be read. If
   * `insert` rejects, the content stays only if another artifact has it.
   */
  keep<T>(staged: Staged, insert: () => Promise<T>): Promise<T> {
    return this.#changes.run(staged.sha256, async () => {
      const isNew = !(await this.#store.has(staged.sha256));
      if (isNew) await this.#store.put(staged.file, staged);
      try {
        return await insert();
      } catch (error) {
        if (isNew) await this.#removeUnused(staged.sha256);
        throw error;
      }
    });
  }

  /**
   * Deletes the record, then the content if no other artifact uses it. A content left behind is removed as an orphan.
   */
  release(record: ArtifactRecord, audit?: RequestAudit): Promise<ArtifactRecord | undefined> {
    return this.#changes.run(record.sha256, async () => {
      const deleted = await this.#artifacts.markDeleted(record.id, this.#clock.now(), audit);
      if (deleted) await this.#removeUnused(record.sha256);
      return deleted;
    });
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
    const source = await this.#store.read(sha256, range, signal);
    if (range) return source;
    const check = new DigestCheck(sha256, sizeBytes);
    return pipeline(source, check, (error) => {
      if (error && !signal.aborted) this.#log.error({ err: error, sha256 }, 'a content could not be read whole');
    });
  }

  /** Removes contents left behind by crashes, and returns how many. */
  async removeOrphans(): Promise<number> {
    let removed = 0;
    for await (const { name: sha256, storedAt } of this.#store.list()) {
      if (this.#clock.now() - storedAt < ORPHAN_MS) continue;
      if (await this.#changes.run(sha256, () => this.#removeUnused(sha256))) removed += 1;
    }
    return removed;
  }

  async #removeUnused(sha256: string): Promise<boolean> {
    if (await this.#artifacts.isContentUsed(sha256)) return false;
    await this.#store.remove(sha256);
    return true;
  }
}
