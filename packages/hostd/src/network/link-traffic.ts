import { join } from 'node:path';
import type { LaunchSpec } from '@cloche/protocol';
import { gatedLinkName, linkName } from '../addressing/address-plan.ts';
import { readSmallFile } from '../base/read-small-file.ts';
import { errorCode } from '../kernel/libc.ts';
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
  const folder = `/sys/class/net/${name}/statistics`;
  try {
    return {
      egressBytes: Number(readSmallFile(join(folder, 'rx_bytes'))),
      ingressBytes: Number(readSmallFile(join(folder, 'tx_bytes'))),
    };
  } catch (error) {
    // A read that began before the removal fails with ENODEV or EINVAL.
    if (['ENOENT', 'ENODEV', 'EINVAL'].includes(errorCode(error) ?? '')) return undefined;
    throw error;
  }
}
