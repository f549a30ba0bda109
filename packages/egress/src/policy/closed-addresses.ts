import { CLOSED_RANGES } from '@cloche/protocol';
import { isInRange } from '../ipv4-range.ts';

export interface ClosedAddressesOptions {
  /** Closed ranges, or parts of them, that the operator opens. */
  allowCidrs: readonly string[];
  /** Where sandboxes are; no operator opens that. */
  sandboxCidr: string;
  /** Whether an address is one of the host's own, which stay closed as well. */
  isOwnAddress: (address: string) => boolean;
}

/**
 * Decides by the address that a connection is about to go to, so that neither a name that leads to a private address
 * nor one that changes between two look-ups gets anywhere.
 */
export class ClosedAddresses {
  readonly #options: ClosedAddressesOptions;

  constructor(options: ClosedAddressesOptions) {
    this.#options = options;
  }

  isClosed(address: string): boolean {
    const { allowCidrs, sandboxCidr, isOwnAddress } = this.#options;
    if (isInRange(address, sandboxCidr) || isOwnAddress(address)) return true;
    if (allowCidrs.some((range) => isInRange(address, range))) return false;
    return !isInRange(address, '0.0.0.0/0') || CLOSED_RANGES.some((range) => isInRange(address, range));
  }
}
