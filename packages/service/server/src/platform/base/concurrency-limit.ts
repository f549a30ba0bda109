import type { OrgId } from '@cloche/contract';

export interface ConcurrencyLimits {
  readonly perOrganization: number;
  readonly total: number;
}

/**
 * Counts what each organization uses at the same time, and limits each organization and the total. At a limit it
 * refuses, where a `Semaphore` would wait.
 */
export class ConcurrencyLimit {
  readonly limits: ConcurrencyLimits;
  readonly #byOrganization = new Map<OrgId, number>();
  #size = 0;

  constructor(limits: ConcurrencyLimits) {
    this.limits = limits;
  }

  get size(): number {
    return this.#size;
  }

  /** Counts one more use until `release` is called. At a limit, counts nothing and returns which limit it is. */
  acquire(orgId: OrgId): 'acquired' | 'organization_limit' | 'total_limit' {
    const own = this.#byOrganization.get(orgId) ?? 0;
    if (own >= this.limits.perOrganization) return 'organization_limit';
    if (this.#size >= this.limits.total) return 'total_limit';
    this.#byOrganization.set(orgId, own + 1);
    this.#size += 1;
    return 'acquired';
  }

  release(orgId: OrgId): void {
    const left = (this.#byOrganization.get(orgId) ?? 0) - 1;
    if (left > 0) this.#byOrganization.set(orgId, left);
    else this.#byOrganization.delete(orgId);
    this.#size -= 1;
  }
}
