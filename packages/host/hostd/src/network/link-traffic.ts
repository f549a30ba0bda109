import type { LaunchSpec } from '@cloche/protocol';
import { gatedLinkName, linkName } from '../addressing/address-plan.ts';
import { findLink } from '../linux/netlink.ts';
import { networkClassOf } from './network-class.ts';

/** Bytes on an instance's link since its launch, with all headers, as the sandbox sees their direction. */
export interface LinkTraffic {
  egressBytes: number;
  ingressBytes: number;
}

/**
 * Returns the bytes that the kernel has counted on the link of a slot, at the host's end, which the sandbox cannot
 * touch. Returns undefined when the link is gone.
 */
export function linkTraffic(
  installationId: string,
  slot: number,
  mode: LaunchSpec['network']['mode'],
): LinkTraffic | undefined {
  const linkClass = networkClassOf(mode);
  if (linkClass === 'none') return { egressBytes: 0, ingressBytes: 0 };
  const name = linkClass === 'gated' ? gatedLinkName(installationId, slot) : linkName(installationId, slot);
  const link = findLink(name);
  // The host's end receives what the sandbox sends.
  return link && { egressBytes: link.receivedBytes, ingressBytes: link.sentBytes };
}
