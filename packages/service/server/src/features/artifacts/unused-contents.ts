import { tryEach } from '../../platform/base/try-each.ts';
import type { ArtifactRepository } from './artifact-repository.ts';
import type { ContentLocks } from './content-locks.ts';
import type { ContentRemovals } from './content-removals.ts';
import { type ArtifactStore, type ContentAsides, NoAnswerError, type SetAsideContent } from './store/artifact-store.ts';

export interface UnusedContentsDeps {
  readonly locks: ContentLocks;
  readonly store: ArtifactStore;
  readonly artifacts: ArtifactRepository;
  /** For a store that cannot set contents aside. */
  readonly removals: ContentRemovals | undefined;
}

/**
 * Removes contents that no artifact uses. The lock of a content does not cover its removal: the database ends the lock
 * of a server that pauses, and the removal follows later.
 */
export class UnusedContents {
  readonly #deps: UnusedContentsDeps;

  constructor(deps: UnusedContentsDeps) {
    this.#deps = deps;
  }

  /** Returns whether this call removed the content. */
  async remove(sha256: string): Promise<boolean> {
    const { store, artifacts, removals } = this.#deps;
    // Without the lock, which suffices for a content that is used.
    if (await artifacts.isContentUsed(sha256)) return false;
    if (store.asides) return this.#removeFrom(store.asides, sha256);
    return removals !== undefined && this.#request(removals, sha256);
  }

  /** Finishes removals that a server began before it ended, and returns how many contents it removed. */
  async finishRemovals(): Promise<number> {
    const { store, removals } = this.#deps;
    await removals?.forget();
    if (!store.asides) return 0;
    let removed = 0;
    await tryEach(store.asides.list(), async (content) => {
      if (await this.#finish(content)) removed += 1;
    });
    return removed;
  }

  /**
   * Sets the content aside, then looks again whether it is used. An artifact that began to use the content before it was
   * set aside is found by that look, and one that begins later stores the content again. So each step may come late.
   */
  async #removeFrom(asides: ContentAsides, sha256: string): Promise<boolean> {
    const content = await asides.setAside(sha256);
    return content !== undefined && this.#finish(content);
  }

  /** Several servers may do this with one content at the same time. */
  async #finish(content: SetAsideContent): Promise<boolean> {
    const { locks, artifacts } = this.#deps;
    let isUsed = true;
    try {
      // The lock waits for artifacts that are about to use the content.
      isUsed = await locks.run(content.name, (tx) => artifacts.isContentUsed(content.name, { tx }));
    } finally {
      // Without an answer too: an unused content that was put back is removed as an orphan.
      if (isUsed) await content.putBack();
    }
    if (!isUsed) await content.remove();
    return !isUsed;
  }

  async #request(removals: ContentRemovals, sha256: string): Promise<boolean> {
    const { locks, store, artifacts } = this.#deps;
    // Before the record, so that its time covers the request even if this server pauses.
    const prepared = await store.prepareRemoval(sha256);
    if (!prepared) return false;
    const removal = await locks.run(sha256, async (tx) => {
      if (await artifacts.isContentUsed(sha256, { tx })) return undefined;
      return removals.begin(sha256, prepared.arrivesWithinMs, tx);
    });
    if (!removal) return false;
    try {
      await prepared.send();
    } catch (error) {
      if (!(error instanceof NoAnswerError)) await removals.end(removal);
      throw error;
    }
    await removals.end(removal);
    return true;
  }
}
