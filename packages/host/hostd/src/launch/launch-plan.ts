import type { LaunchSpec } from '@cloche/protocol';
import { type InstanceKey, type InstanceName, instanceKey } from '../instance/instance-key.ts';
import { type TemplateSource, versionOfSource } from '../instance/instance-source.ts';
import { type NetworkClass, networkClassOf } from '../network/network-class.ts';
import type { LaunchableVersion } from '../storage/launchable-versions.ts';
import type { ParkedRecord } from '../storage/parked-disks.ts';

/** Instance to launch. */
export interface LaunchPlan {
  key: InstanceKey;
  /** The version whose files are below the disk. */
  source: TemplateSource;
  /** That version. */
  template: LaunchableVersion;
  /** The disk that an earlier incarnation of the sandbox left; undefined for a fresh one. */
  parked?: ParkedRecord | undefined;
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
  parked?: ParkedRecord,
): LaunchPlan {
  const below = { kind: 'template', templateVersionId: versionOfSource(source) } as const;
  const plan = { key: instanceKey(name), source: below, template, parked, resources };
  return { ...plan, network: networkClassOf(network.mode), sandbox: { ...name, network } };
}
