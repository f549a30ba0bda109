import type { LaunchSpec } from '@cloche/protocol';
import { type NetworkClass, networkClassOf } from '../network/network-class.ts';
import { hasOwnZygote, type LaunchableVersion } from '../storage/launchable-versions.ts';

/** Properties that are fixed at an instance's launch: sandboxes with the same ones can claim the same instances. */
export interface PoolKind {
  templateVersionId: string;
  network: NetworkClass;
  resources: LaunchSpec['resources'];
  /**
   * Whose share of the pool the instances take. Undefined for a version that was built on the host. Instances of other
   * versions run files of a client while they wait, so each owner has instances of its own, and they have no network.
   */
  owner?: string | undefined;
}

/** Owner of the instances that a server requested without naming one. */
const UNNAMED = 'unnamed';

/** Text form of a kind; equal for equal kinds. */
export type KindId = string & { readonly brand: 'KindId' };

/** @param owner the organization that launches the version */
export function kindOf(
  { network, resources }: LaunchSpec,
  template: LaunchableVersion,
  owner: string | undefined,
): PoolKind {
  const kind = { templateVersionId: template.manifest.id, network: networkClassOf(network.mode), resources };
  return hasOwnZygote(template) ? { ...kind, owner: owner ?? UNNAMED } : kind;
}

export function versionOf(id: KindId): string {
  return id.split(' ')[0] ?? '';
}

export function kindId({ templateVersionId, network, resources, owner = '' }: PoolKind): KindId {
  const { cpu, memoryBytes, diskBytes, pids } = resources;
  return [templateVersionId, network, cpu, memoryBytes, diskBytes, pids, owner].join(' ') as KindId;
}
