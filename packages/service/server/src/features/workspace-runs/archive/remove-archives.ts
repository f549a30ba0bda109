import { LIMITS } from '@cloche/contract';
import type { Logger } from 'pino';
import type { Clock } from '../../../platform/base/clock.ts';
import { tryEach } from '../../../platform/base/try-each.ts';
import type { ArtifactStore } from '../../artifacts/store/artifact-store.ts';
import type { ArchiveRepository } from './archive-repository.ts';

/** Archives that one query returns for their removal. */
const BATCH = 100;
/** Longest time for which an upload may continue after its URL has expired. */
const GRACE_MS = 3_600_000;

export interface RemoveArchivesDeps {
  readonly archives: ArchiveRepository;
  readonly store: ArtifactStore;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Removes the contents of archives that no run needs. */
export class RemoveArchives {
  readonly #deps: RemoveArchivesDeps;
  /** Id of the archive that was tried last. */
  #tried = '';

  constructor(deps: RemoveArchivesDeps) {
    this.#deps = deps;
  }

  /** Removes uploads that never finished, and archives a day after the end of their runs. */
  async removeEnded(): Promise<void> {
    const now = this.#deps.clock.now();
    await this.#deps.archives.discardEnded(now - GRACE_MS, now - LIMITS.workspaceArchiveKeptMs);
    await this.#removeAll();
  }

  /**
   * Removes the stored content of a failed upload, unless a run has it. If this fails, `removeEnded` removes it later.
   */
  async removeFailed(id: string): Promise<void> {
    await this.#quietly(async () => {
      if (await this.#deps.archives.discard(id)) await this.#remove(id);
    });
  }

  /** Removes archives that were replaced. If this fails, `removeEnded` removes them later. */
  async removeDiscarded(): Promise<void> {
    await this.#quietly(() => this.#removeAll());
  }

  /** Removes contents without a row, for example of uploads that ended after they were discarded. */
  async removeOrphans(): Promise<number> {
    const { archives, store } = this.#deps;
    let removed = 0;
    await tryEach(store.list(), async ({ name }) => {
      if (await archives.isOwned(name)) return;
      await store.remove(name);
      removed += 1;
    });
    return removed;
  }

  /** Ends at the first failure. The next call goes on after it, so an archive that cannot be removed delays no other. */
  async #removeAll(): Promise<void> {
    const rounds = this.#tried === '' ? 1 : 2;
    for (let round = 0; round < rounds; round += 1) {
      for (let ids = await this.#next(); ids.length > 0; ids = await this.#next()) {
        for (const id of ids) {
          this.#tried = id;
          await this.#remove(id);
        }
      }
      this.#tried = '';
    }
  }

  #next(): Promise<string[]> {
    return this.#deps.archives.listDiscarded(BATCH, this.#tried);
  }

  async #remove(id: string): Promise<void> {
    await this.#deps.store.remove(id);
    await this.#deps.archives.delete(id);
  }

  async #quietly(act: () => Promise<void>): Promise<void> {
    await act().catch((error: unknown) => this.#deps.log.warn({ err: error }, 'an archive is removed later'));
  }
}
