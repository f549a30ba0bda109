import type { OrgId } from '@cloche/contract';

export interface ShareLimits {
  readonly perOrganization: number;
  readonly inAll: number;
}

/** Counts what organizations use at once and limits each organization and the total. */
export class Shares {
  readonly limits: ShareLimits;
  readonly #byOrganization = new Map<OrgId, number>();
  #size = 0;

  constructor(limits: ShareLimits) {
    this.limits = limits;
  }

  get size(): number {
    return this.#size;
  }

  /** Counts one more until `give` is called, or counts nothing and returns the limit that is reached. */
  take(orgId: OrgId): 'taken' | 'organization is full' | 'all is full' {
    const own = this.#byOrganization.get(orgId) ?? 0;
    if (own >= this.limits.perOrganization) return 'organization is full';
    if (this.#size >= this.limits.inAll) return 'all is full';
    this.#byOrganization.set(orgId, own + 1);
    this.#size += 1;
    return 'taken';
  }

  give(orgId: OrgId): void {
    const left = (this.#byOrganization.get(orgId) ?? 0) - 1;
    if (left > 0) this.#byOrganization.set(orgId, left);
    else this.#byOrganization.delete(orgId);
    this.#size -= 1;
  }
}
