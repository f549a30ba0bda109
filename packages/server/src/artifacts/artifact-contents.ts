import { pipeline, type Readable } from 'node:stream';
import type { Logger } from 'pino';
import type { Clock } from '../base/clock.ts';
import type { ArtifactRecord } from './artifact.ts';
import type { ArtifactRepository } from './artifact-repository.ts';
import type { ArtifactStore } from './store/artifact-store.ts';
import { DigestCheck } from './store/digest-check.ts';
import type { Staged } from './store/staging.ts';

/** A content without an artifact may be one whose record another server is about to write. */
const ORPHAN_MS = 3_600_000;

/**
 * The contents of artifacts, each kept once. What decides over one content is done one at a time, so that none is removed
 * while another artifact takes it up.
 */
export class ArtifactContents {
  readonly #store: ArtifactStore;
  readonly #artifacts: ArtifactRepository;
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #underWay = new Map<string, Promise<unknown>>();

  constructor(store: ArtifactStore, artifacts: ArtifactRepository, clock: Clock, log: Logger) {
    this.#store = store;
    this.#artifacts = artifacts;
    this.#clock = clock;
    this.#log = log;
  }

  /** The content, then the record: what is listed can be read. False as `insert` says. */
  keep(staged: Staged, record: ArtifactRecord): Promise<boolean> {
    return this.#alone(staged.sha256, async () => {
      if (!(await this.#store.has(staged.sha256))) await this.#store.put(staged.file, staged);
      return this.#artifacts.insert(record);
    });
  }

  /** The record, then the content if nobody else has it. A content that stays by accident is an orphan. */
  release(record: ArtifactRecord): Promise<ArtifactRecord | undefined> {
    return this.#alone(record.sha256, async () => {
      const deleted = await this.#artifacts.markDeleted(record.id, this.#clock.now());
      if (deleted) await this.#removeUnused(record.sha256);
      return deleted;
    });
  }

  /**
   * The bytes, or a part of them. A whole content is checked on its way: one that is not what its digest says any more
   * breaks off before its end. @throws ContentMissing
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

  /** Removes what crashes have left; how many. */
  async removeOrphans(): Promise<number> {
    let removed = 0;
    for await (const { sha256, storedAt } of this.#store.list()) {
      if (this.#clock.now() - storedAt < ORPHAN_MS) continue;
      if (await this.#alone(sha256, () => this.#removeUnused(sha256))) removed += 1;
    }
    return removed;
  }

  async #removeUnused(sha256: string): Promise<boolean> {
    if (await this.#artifacts.isContentUsed(sha256)) return false;
    await this.#store.remove(sha256);
    return true;
  }

  async #alone<T>(sha256: string, act: () => Promise<T>): Promise<T> {
    const before = this.#underWay.get(sha256) ?? Promise.resolve();
    const turn = before.then(act, act);
    this.#underWay.set(sha256, turn);
    try {
      return await turn;
    } finally {
      if (this.#underWay.get(sha256) === turn) this.#underWay.delete(sha256);
    }
  }
}
