import type { OrgId } from '@cloche/contract';

/** Most messages to webhooks that are under way at the same time: of this server, and of one organization. */
const MOST = 256;
const MOST_OF_ORGANIZATION = 16;

/**
 * Limits how many messages are under way, so that receivers that do not answer cost a bounded part of the process, and
 * each organization gets its turn.
 */
export class SendingSlots {
  readonly #used = new Map<OrgId, number>();
  #count = 0;

  get areAllUsed(): boolean {
    return this.#count >= MOST;
  }

  /** Returns the organizations that have no free slot. */
  busy(): OrgId[] {
    return [...this.#used].filter(([, used]) => used >= MOST_OF_ORGANIZATION).map(([orgId]) => orgId);
  }

  /** Takes a slot until its disposal. Returns undefined if none is free. */
  take(orgId: OrgId): Disposable | undefined {
    const used = this.#used.get(orgId) ?? 0;
    if (this.areAllUsed || used >= MOST_OF_ORGANIZATION) return undefined;
    this.#used.set(orgId, used + 1);
    this.#count += 1;
    let isTaken = true;
    return {
      [Symbol.dispose]: () => {
        if (!isTaken) return;
        isTaken = false;
        this.#count -= 1;
        const left = (this.#used.get(orgId) ?? 1) - 1;
        if (left > 0) this.#used.set(orgId, left);
        else this.#used.delete(orgId);
      },
    };
  }
}
