import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Slots } from '../addressing/slots.ts';
import { until } from '../base/until.ts';
import type { Cgroups } from '../cgroups/cgroups.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import type { InstanceRecord, InstanceRecords } from '../instance/instance-records.ts';
import { isLoopDeviceBackedBy } from '../linux/loop-device.ts';
import type { FrozenInstances } from '../memory/frozen-instances.ts';
import type { EgressGate } from '../network/egress-gate.ts';
import type { SandboxNetwork } from '../network/sandbox-network.ts';
import type { Runtime } from '../oci/runtime.ts';
import type { DiskImages } from '../storage/disk-image.ts';
import { removeMountPoints, rootPaths } from '../storage/root-file-system.ts';
import type { KernelForks } from '../zygote/kernel-forks.ts';

export interface RemovalDeps {
  records: InstanceRecords;
  slots: Slots;
  cgroups: Cgroups;
  frozen: Pick<FrozenInstances, 'forget'>;
  diskImages: DiskImages;
  network: SandboxNetwork;
  egress: EgressGate;
  runtime: Runtime;
  kernels: KernelForks;
  /** Mount points, visible only in hostd's own mount namespace. */
  mountsDir: string;
  /** Folder with one folder for each instance, which holds its agent's socket. */
  socketsDir: string;
}

/**
 * Removes everything of an instance, alive or dead, whichever hostd launched it and however far its launch got. The
 * record goes last, so an interrupted removal is repeated. Idempotent.
 */
export async function removeInstance(key: InstanceKey, host: RemovalDeps): Promise<void> {
  const record = host.records.read(key);

  removeMountPoints(rootPaths(host.mountsDir, key));
  host.frozen.forget(key);
  await host.cgroups.destroy(key);
  // The slot is free as soon as its last process is gone, so it and its link may belong to another instance by now.
  const slot = host.slots.find(key);
  if (slot !== undefined) await host.network.disconnect(slot);
  await host.egress.unregister(key);
  await diskIsReleased(key, host, record);
  host.diskImages.remove(key);

  await host.runtime.remove({ key, bundleDir: host.records.folderOf(key) });
  host.kernels.forget(key);
  rmSync(join(host.socketsDir, key), { recursive: true, force: true });
  // The slot last of all shared resources: now nothing is left that has its ids or addresses.
  if (slot !== undefined) host.slots.release(slot, key);
  host.records.remove(key);
}

/**
 * Resolves when no loop device holds the instance's disk any more. If its record names no device, all are checked. A
 * device that shows the path of the disk can hold that of another instance: a file without a name shows the number of its
 * inode alone, which the file system uses again at once.
 */
export async function diskIsReleased(
  key: InstanceKey,
  { diskImages, records }: Pick<RemovalDeps, 'diskImages' | 'records'>,
  record: InstanceRecord | undefined,
): Promise<void> {
  const image = diskImages.shownPath(key, record?.image);
  const devices = record && 'loopDevice' in record ? [record.loopDevice] : loopDevices();
  const isOfAnother = (number: number) =>
    records.keys().some((other) => other !== key && runningOf(records, other)?.loopDevice === number);
  const isHeld = (number: number) => isLoopDeviceBackedBy(number, image) && !isOfAnother(number);
  await until(`the disk of ${key} is released`, () => !devices.some(isHeld));
}

function runningOf(records: InstanceRecords, key: InstanceKey) {
  return records.findLive(key) ?? records.findPooled(key);
}

function loopDevices(): number[] {
  return readdirSync('/sys/block')
    .filter((name) => name.startsWith('loop'))
    .map((name) => Number(name.slice('loop'.length)));
}
