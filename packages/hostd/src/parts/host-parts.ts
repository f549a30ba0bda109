import type { Slots } from '../addressing/slots.ts';
import type { Cgroups } from '../cgroups/cgroups.ts';
import type { InstanceRecords } from '../instance/instance-records.ts';
import type { EgressGate } from '../network/egress-gate.ts';
import type { SandboxNetwork } from '../network/sandbox-network.ts';
import type { TrustBundles } from '../network/trust-bundle.ts';
import type { Runtime } from '../oci/runtime.ts';
import type { ProcessorGroups } from '../processor/processor-groups.ts';
import type { DiskImages } from '../storage/disk-image.ts';
import type { DiskPromises } from '../storage/disk-promises.ts';
import type { KernelForks } from '../zygote/kernel-forks.ts';

/** What instances are made of on this host, and where. One set for each installation. */
export interface HostParts {
  records: InstanceRecords;
  slots: Slots;
  cgroups: Cgroups;
  processor: ProcessorGroups;
  diskImages: DiskImages;
  diskPromises: DiskPromises;
  network: SandboxNetwork;
  egress: EgressGate;
  runtime: Runtime;
  kernels: KernelForks;
  /** Mount points, seen in hostd's own mount namespace only. */
  mountsDir: string;
  /** One folder an instance with its agent's socket, which the server's user opens. */
  socketsDir: string;
  /** The server's user. */
  service: { uid: number; gid: number };
  /** Agent and kernels, as every sandbox has them. */
  guestDir: string;
  /** The authorities that sandboxes trust. */
  trust: TrustBundles;
}
