import { SANDBOX_SLOTS } from '@cloche/layout';

/**
 * Address range of sandboxes. 198.18.0.0/15 is reserved for benchmarks (RFC 2544), so no network of the host uses it,
 * and sandboxes may not reach the range. Each slot of the host has four addresses of its first half.
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

/** Returns the prefix of the names of all open links of an installation; the host's firewall rules match it. */
export function linkPrefix(installationId: string): string {
  return `cl${installationId}`;
}

/** Returns the prefix of the names of an installation's gated links, which reach only egress. */
export function gatedLinkPrefix(installationId: string): string {
  return `ce${installationId}`;
}

/** Returns the name of a slot's link: at most 15 characters, the kernel's limit. */
export function linkName(installationId: string, slot: number): string {
  return `${linkPrefix(installationId)}${slot}`;
}

export function gatedLinkName(installationId: string, slot: number): string {
  return `${gatedLinkPrefix(installationId)}${slot}`;
}

/**
 * Returns the name of the link that carries the installation's gateway address, where sandboxes find their resolver.
 */
export function gatewayLinkName(installationId: string): string {
  return `cg${installationId}`;
}

/** Returns the name of the unused peer of the gateway link. */
export function gatewayPeerName(installationId: string): string {
  return `cp${installationId}`;
}

/** Returns the name of the link to the namespace that answers a probe. */
export function probeTargetLinkName(installationId: string): string {
  return `ct${installationId}`;
}
