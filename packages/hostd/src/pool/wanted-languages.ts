import type { StartedLanguage } from '@cloche/protocol';

/**
 * Milliseconds that a language stays wanted after a use: as long as an agent keeps an unused spare kernel
 * (`packages/agent/src/provisioning/spare-provisioner.ts`).
 */
const WANTED_MS = 180_000;
/** Instances that wait are told again after this long, so that their kernels stay while there is demand. */
const TELL_AGAIN_MS = 60_000;

/** Languages whose kernels are started inside of sandboxes and that contexts were opened in lately. */
export class WantedLanguages {
  readonly #now: () => number;
  readonly #wantedUntil = new Map<StartedLanguage, number>();
  readonly #tellAgainAt = new Map<StartedLanguage, number>();

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Notes a use. Whether instances that wait have to be told of it. */
  note(language: StartedLanguage): boolean {
    const now = this.#now();
    this.#wantedUntil.set(language, now + WANTED_MS);
    if (now < (this.#tellAgainAt.get(language) ?? 0)) return false;
    this.#tellAgainAt.set(language, now + TELL_AGAIN_MS);
    return true;
  }

  list(): StartedLanguage[] {
    const now = this.#now();
    return [...this.#wantedUntil].filter(([, until]) => now < until).map(([language]) => language);
  }
}
