import type { LaunchSpec } from '@cloche/protocol';
import { type InstanceKey, type InstanceName, instanceKey } from '../instance/instance-key.ts';
import { type NetworkClass, networkClassOf } from '../network/network-class.ts';
import type { LaunchableVersion } from '../storage/launchable-versions.ts';

/** Instance to launch. */
export interface LaunchPlan {
  key: InstanceKey;
  source: LaunchSpec['source'];
  /** The version that the source names. */
  template: LaunchableVersion;
  resources: LaunchSpec['resources'];
  network: NetworkClass;
  /**
   * Whether the instance gets the link of its network only when a sandbox claims it. Until then it has no network at all,
   * because it runs files of a client.
   */
  isUnlinked?: boolean;
  /**
   * The sandbox that gets the instance, with its network policy. Undefined for an instance that is launched ahead of
   * demand: it has no policy until a sandbox claims it, so a gated one reaches nothing.
   */
  sandbox: (InstanceName & Pick<LaunchSpec, 'network'>) | undefined;
}

/** Plans an instance for one incarnation of a sandbox. */
export function planForSandbox(
  name: InstanceName,
  { source, resources, network }: LaunchSpec,
  template: LaunchableVersion,
): LaunchPlan {
  const sandbox = { ...name, network };
  return { key: instanceKey(name), source, template, resources, network: networkClassOf(network.mode), sandbox };
}
