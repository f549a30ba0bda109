import { pipeline, type Readable } from 'node:stream';
import type { OrgId } from '@cloche/contract';
import { BackOff, Deadline, KeyedQueue, reportFailure } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { Clock } from '../../platform/base/clock.ts';
import { tryEach } from '../../platform/base/try-each.ts';
import { type Audited, UNAUDITED } from '../../platform/call/call.ts';
import type { Database } from '../../platform/db/database.ts';
import type { Transaction, Transactions } from '../../platform/db/transactions.ts';
import type { ArtifactRecord } from './artifact.ts';
import type { ArtifactRepository } from './artifact-repository.ts';
import type { ContentLocks } from './content-locks.ts';
import { ContentRemovals } from './content-removals.ts';
import { type ArtifactStore, StoreError } from './store/artifact-store.ts';
import { DigestCheck } from './store/digest-check.ts';
import type { Staged } from './store/staging.ts';
import { UnusedContents } from './unused-contents.ts';

/**
 * Minimum age of an orphan before its removal. A younger content may belong to a record that is about to be written.
 */
const ORPHAN_MS = 3_600_000;
/** Attempts to store a content that is still being removed. With their pauses they take two seconds. */
const REMOVAL_LOOKS = 12;
const REMOVAL_PAUSES = { firstMs: 5, longestMs: 250 };
/** Most removals of contents that wait for their turn. A further content is removed as an orphan. */
const MOST_REMOVALS = 1_000;
/** Longest wait for the store while the lock, and with it a connection to the database, is held. */
const LOOK_MS = 3_000;

export interface ArtifactContentsDeps {
  readonly db: Database;
  readonly transactions: Transactions;
  readonly store: ArtifactStore;
  readonly artifacts: ArtifactRepository;
  readonly locks: ContentLocks;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Stores the contents of artifacts, each content once. All servers decide about one content one after another, so that
 * no artifact starts to use a content that is being removed from a bucket, or that was set aside in a folder.
 */
export class ArtifactContents {
  readonly #deps: ArtifactContentsDeps;
  readonly #locks: ContentLocks;
  /** Undefined for a store that sets contents aside. */
  readonly #removals: ContentRemovals | undefined;
  readonly #unused: UnusedContents;
  readonly #lookMs: number;
  /** Removals that follow the answer to a deletion. */
  readonly #later = new KeyedQueue<'removals'>();
  #waiting = 0;

  constructor(deps: ArtifactContentsDeps, { lookMs = LOOK_MS } = {}) {
    this.#deps = deps;
    this.#lookMs = lookMs;
    const { db, clock, store, locks } = deps;
    this.#locks = locks;
    if (!store.asides) this.#removals = new ContentRemovals(db, clock);
    this.#unused = new UnusedContents({ ...deps, removals: this.#removals });
  }

  /**
   * Stores the content, then calls `insert`, which writes the record; so every listed artifact can be read. If `insert`
   * rejects, the content stays only if another artifact uses it. `insert` uses the transaction if it gets one. It may
   * be called again.
   *
   * A content that the organization does not have is stored even if the store has it: the time saved would show that
   * another organization has the same bytes.
   *
   * @throws StoreError, also while the same content may still be being removed
   */
  async keep<T>(
    staged: Staged,
    orgId: OrgId,
    insert: (tx: Transaction | undefined) => Promise<T>,
    signal: AbortSignal,
  ): Promise<T> {
    const { store, artifacts } = this.#deps;
    const { sha256 } = staged;
    for (let isNew = false; ; ) {
      await this.#waitForRemoval(sha256, signal);
      // Done without the lock, because an upload takes long.
      const isKnown = isNew || (await artifacts.isContentUsed(sha256, { orgId }));
      if (!isKnown || !(await store.has(sha256))) {
        // The file is kept: if the content is removed before the record is written, it is stored again from the file.
        await store.put(staged.file, { ...staged, keepsFile: true });
        isNew = true;
      }
      try {
        const kept = await this.#locks.run(sha256, async (tx) => {
          if (await this.#removals?.isUnderWay(sha256, tx)) return undefined;
          // The content may have been removed before the lock, with the last artifact that used it.
          return (await this.#isStored(sha256)) ? { value: await insert(tx) } : undefined;
        });
        if (kept) return kept.value;
      } catch (error) {
        // A store that did not answer is not asked to remove the content, which the next attempt then finds.
        if (isNew && !(error instanceof StoreError)) await this.#tryToRemoveUnused(sha256);
        throw error;
      }
    }
  }

  /**
   * Deletes the record, then the content if no other artifact uses it. A content left behind is removed as an orphan.
   */
  async release(record: ArtifactRecord): Promise<void> {
    if (await this.#markDeleted(UNAUDITED, record)) await this.#tryToRemoveUnused(record.sha256);
  }

  /**
   * Releases an artifact for a client, and does not wait for the content: the time of its removal would show whether
   * another organization has the same bytes. Returns undefined if the artifact is deleted already.
   */
  async releaseAtOnce(call: Audited, record: ArtifactRecord): Promise<ArtifactRecord | undefined> {
    const deleted = await this.#markDeleted(call, record);
    if (deleted) this.#removeLater(record.sha256);
    return deleted;
  }

  /** Resolves when the contents of released artifacts have been removed. */
  async settle(): Promise<void> {
    await this.#later.idle();
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
    const { store, clock } = this.#deps;
    let removed = await this.#unused.finishRemovals();
    await tryEach(store.list(), async ({ name: sha256, storedAt }) => {
      if (clock.now() - storedAt < ORPHAN_MS) return;
      if (await this.#unused.remove(sha256)) removed += 1;
    });
    return removed;
  }

  #markDeleted(call: Audited, record: ArtifactRecord): Promise<ArtifactRecord | undefined> {
    const { artifacts, clock } = this.#deps;
    return artifacts.markDeleted(call, record.id, clock.now());
  }

  #removeLater(sha256: string): void {
    if (this.#waiting >= MOST_REMOVALS) return;
    this.#waiting += 1;
    const removal = this.#later.run('removals', () => this.#tryToRemoveUnused(sha256));
    removal.finally(() => this.#waiting--).catch(reportFailure);
  }

  async #waitForRemoval(sha256: string, signal: AbortSignal): Promise<void> {
    if (!this.#removals) return;
    const backOff = new BackOff(REMOVAL_PAUSES);
    for (let left = REMOVAL_LOOKS; await this.#removals.isUnderWay(sha256); left -= 1) {
      if (left === 0) throw new StoreError('the store has not said yet that it removed the same content');
      await backOff.pause(signal);
      signal.throwIfAborted();
    }
  }

  async #isStored(sha256: string): Promise<boolean> {
    using deadline = new Deadline(this.#lookMs);
    try {
      return await deadline.race(this.#deps.store.has(sha256, deadline.signal));
    } catch (error) {
      if (!deadline.endedBy) throw error;
      throw new StoreError('the store does not say whether it has a content', { cause: error });
    }
  }

  /** Leaves the content to `removeOrphans` if the store does not remove it. */
  async #tryToRemoveUnused(sha256: string): Promise<void> {
    await this.#unused.remove(sha256).catch((err: unknown) => {
      this.#deps.log.warn({ err, sha256 }, 'an unused content is removed later');
    });
  }
}
