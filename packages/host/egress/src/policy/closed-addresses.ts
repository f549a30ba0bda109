import { isIPv4 } from 'node:net';
import { ClosedAddresses, inRanges, type OperatorRanges } from '@cloche/settings';

export interface ClosedToSandboxesOptions {
  ranges: OperatorRanges;
  /** Range of the sandboxes' addresses. */
  sandboxCidr: string;
  /** Returns whether an address belongs to this host. */
  isOwnAddress: (address: string) => boolean;
}

/**
 * Returns the addresses that are closed to sandboxes. The operator can open neither other sandboxes, nor this host, nor
 * IPv6, which sandboxes do not have.
 */
export function closedToSandboxes({ ranges, sandboxCidr, isOwnAddress }: ClosedToSandboxesOptions): ClosedAddresses {
  const isOfSandbox = inRanges([sandboxCidr]);
  const isNever = (address: string) => !isIPv4(address) || isOfSandbox(address) || isOwnAddress(address);
  return new ClosedAddresses({ ranges, isNever });
}
