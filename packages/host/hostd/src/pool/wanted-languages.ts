import type { SpawnedLanguage } from '@cloche/protocol';

/**
 * Milliseconds that a language stays wanted after a use: as long as an agent keeps an unused spare kernel
 * (`packages/guest/agent/src/provisioning/spare-provisioner.ts`).
 */
const WANTED_MS = 180_000;
/** Milliseconds until waiting instances get the request again, so that their kernels stay while there is demand. */
const REPEAT_MS = 60_000;

/** Languages in which contexts were opened recently and whose kernels start inside sandboxes. */
export class WantedLanguages {
  readonly #now: () => number;
  readonly #wantedUntil = new Map<SpawnedLanguage, number>();
  readonly #repeatAt = new Map<SpawnedLanguage, number>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Notes a use. Returns whether waiting instances have to be asked for a kernel again. */
  note(language: SpawnedLanguage): boolean {
    const now = this.#now();
    this.#wantedUntil.set(language, now + WANTED_MS);
    if (now < (this.#repeatAt.get(language) ?? 0)) return false;
    this.#repeatAt.set(language, now + REPEAT_MS);
    return true;
  }

  list(): SpawnedLanguage[] {
    const now = this.#now();
    return [...this.#wantedUntil].filter(([, until]) => now < until).map(([language]) => language);
  }
}
