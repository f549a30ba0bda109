import type { ApiKeyId } from '@cloche/contract';
import type { ApiKeyRepository } from './api-key-repository.ts';

/** Interval of the writes. Together with the resolution it keeps `lastUsedAt` less than a minute behind. */
export const USES_WRITE_MS = 20_000;
/** Resolution of a recorded use. Keys that were used in the same interval share a statement. */
const RESOLUTION_MS = 1_000;

/** Gathers when keys were last used and writes it from time to time, so that a request costs no write. */
export class KeyUses {
  readonly #keys: ApiKeyRepository;
  #uses = new Map<ApiKeyId, number>();

  constructor(keys: ApiKeyRepository) {
    this.#keys = keys;
  }

  note(id: ApiKeyId, now: number): void {
    this.#uses.set(id, now);
  }

  /** Writes the uses since the last write. */
  async write(): Promise<void> {
    const uses = this.#uses;
    this.#uses = new Map();
    for (const [at, ids] of Map.groupBy(uses.keys(), (id) => timeOf(uses.get(id) ?? 0))) {
      await this.#keys.markUsed(ids, at);
    }
  }
}

function timeOf(at: number): number {
  return Math.floor(at / RESOLUTION_MS) * RESOLUTION_MS;
}
