import { SANDBOX_SLOTS } from '@cloche/protocol';

/**
 * Addresses inside the host. 198.18.0.0/15 is set aside for benchmarks, so it is on no network that a host is part of,
 * and sandboxes are kept from the range as a whole. Each slot of the host has four addresses of its first half.
 */
export const SANDBOX_CIDR = '198.18.0.0/16';
export const SLOT_COUNT = SANDBOX_SLOTS;
export const SANDBOX_PREFIX_LENGTH = 30;

export interface SlotAddresses {
  /** The host's end of the sandbox's link. */
  host: string;
  sandbox: string;
}

export function addressesOfSlot(slot: number): SlotAddresses {
  const offset = slot * 4;
  const network = `198.18.${offset >> 8}`;
  return { host: `${network}.${(offset & 255) + 1}`, sandbox: `${network}.${(offset & 255) + 2}` };
}

/** What every link to a sandbox of that installation is called at its start; the rules of the host go by it. */
export function linkPrefix(installationId: string): string {
  return `cl${installationId}`;
}

/** The same for the links of sandboxes that reach nothing but egress. */
export function gatedLinkPrefix(installationId: string): string {
  return `ce${installationId}`;
}

/** At most 15 characters, as the kernel wants it. */
export function linkName(installationId: string, slot: number): string {
  return `${linkPrefix(installationId)}${slot}`;
}

export function gatedLinkName(installationId: string, slot: number): string {
  return `${gatedLinkPrefix(installationId)}${slot}`;
}

/** The link that carries the installation's gateway address, where sandboxes find their resolver. */
export function gatewayLinkName(installationId: string): string {
  return `cg${installationId}`;
}

/** The other end of that link, which nothing uses. */
export function gatewayPeerName(installationId: string): string {
  return `cp${installationId}`;
}
