import type { OrgId } from '@cloche/contract';
import { KeyCounts } from '@cloche/node-support';

/** Most messages to webhooks that are under way at the same time: of this server, and of one organization. */
const MOST = 256;
const MOST_OF_ORGANIZATION = 16;

/**
 * Limits how many messages are under way, so that receivers that do not answer cost a bounded part of the process, and
 * each organization gets its turn.
 */
export class SendingSlots {
  readonly #used = new KeyCounts<OrgId>();

  get areAllUsed(): boolean {
    return this.#used.total >= MOST;
  }

  /** Returns the organizations that have no free slot. */
  busy(): OrgId[] {
    return this.#used.keysWith(MOST_OF_ORGANIZATION);
  }

  /** Takes a slot until its disposal. Returns undefined if none is free. */
  take(orgId: OrgId): Disposable | undefined {
    if (this.areAllUsed || this.#used.of(orgId) >= MOST_OF_ORGANIZATION) return undefined;
    return this.#used.add(orgId);
  }
}
