import { CLOSED_RANGES, type OperatorRanges } from '@cloche/protocol';
import { isInRange } from '../ipv4-range.ts';

export interface ClosedAddressesOptions {
  ranges: OperatorRanges;
  /** Range of the sandboxes' addresses. The operator cannot open it. */
  sandboxCidr: string;
  /** Returns whether an address belongs to this host. Such addresses are always closed. */
  isOwnAddress: (address: string) => boolean;
}

/**
 * Decides by the address that a connection is about to go to. This stops names that lead to private addresses, and
 * names whose address changes between two lookups.
 */
export class ClosedAddresses {
  readonly #options: ClosedAddressesOptions;

  constructor(options: ClosedAddressesOptions) {
    this.#options = options;
  }

  isClosed(address: string): boolean {
    const { ranges, sandboxCidr, isOwnAddress } = this.#options;
    if (isInRange(address, sandboxCidr) || isOwnAddress(address)) return true;
    const isIn = (cidrs: readonly string[]) => cidrs.some((range) => isInRange(address, range));
    if (isIn(ranges.denyCidrs)) return true;
    if (isIn(ranges.allowCidrs)) return false;
    return !isInRange(address, '0.0.0.0/0') || isIn(CLOSED_RANGES);
  }
}
