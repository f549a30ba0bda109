import { CLOSED_RANGES, type OperatorRanges } from '@cloche/protocol';
import { isInRange } from '../ipv4-range.ts';

export interface ClosedAddressesOptions {
  ranges: OperatorRanges;
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
    const { ranges, sandboxCidr, isOwnAddress } = this.#options;
    if (isInRange(address, sandboxCidr) || isOwnAddress(address)) return true;
    const isIn = (cidrs: readonly string[]) => cidrs.some((range) => isInRange(address, range));
    if (isIn(ranges.denyCidrs)) return true;
    if (isIn(ranges.allowCidrs)) return false;
    return !isInRange(address, '0.0.0.0/0') || isIn(CLOSED_RANGES);
  }
}
