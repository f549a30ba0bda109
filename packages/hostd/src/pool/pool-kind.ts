import type { LaunchSpec } from '@cloche/protocol';
import { type NetworkClass, networkClassOf } from '../network/network-class.ts';

/** Properties that are fixed at an instance's launch: sandboxes with the same ones can claim the same instances. */
export interface PoolKind {
  templateVersionId: string;
  network: NetworkClass;
  resources: LaunchSpec['resources'];
}

/** Text form of a kind; equal for equal kinds. */
export type KindId = string & { readonly brand: 'KindId' };

export function kindOf({ source, network, resources }: LaunchSpec): PoolKind {
  return { templateVersionId: source.templateVersionId, network: networkClassOf(network.mode), resources };
}

export function versionOf(id: KindId): string {
  return id.split(' ')[0] ?? '';
}

export function kindId({ templateVersionId, network, resources }: PoolKind): KindId {
  const { cpu, memoryBytes, diskBytes, pids } = resources;
  return [templateVersionId, network, cpu, memoryBytes, diskBytes, pids].join(' ') as KindId;
}
