import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../base/until.ts';
import type { InstanceKey } from '../instance/instance-key.ts';
import { isLoopDeviceBackedBy } from '../kernel/loop-device.ts';
import type { HostParts } from '../parts/host-parts.ts';
import { removeRootPlaces, rootPlaces } from '../storage/root-file-system.ts';

/**
 * Takes down everything of an instance, alive or dead, whichever hostd launched it and however far it came. The record
 * goes last, so a removal cut off halfway is done again. Idempotent.
 */
export async function removeInstance(key: InstanceKey, host: HostParts): Promise<void> {
  const record = host.records.read(key);

  removeRootPlaces(rootPlaces(host.mountsDir, key));
  await host.cgroups.destroy(key);
  // A slot is free as soon as its last process is gone, so by now it may be another's, along with its link.
  const slot = host.slots.find(key);
  if (slot !== undefined) await host.network.disconnect(slot);
  await host.egress.unregister(key);
  await diskIsReleased(key, host, record && 'loopDevice' in record ? record.loopDevice : undefined);

  await host.runtime.remove({ key, bundleDir: host.records.folderOf(key) });
  host.kernels.forget(key);
  rmSync(join(host.socketsDir, key), { recursive: true, force: true });
  // Last of what others may be given: by now nothing is left that has the slot's ids or addresses.
  if (slot !== undefined) host.slots.release(slot, key);
  host.records.remove(key);
}

/** Resolves when no loop device holds the instance's disk any more. Without its number all of them are looked at. */
export async function diskIsReleased(key: InstanceKey, host: HostParts, loopDevice?: number): Promise<void> {
  const image = host.diskImages.pathOf(key);
  const devices = loopDevice === undefined ? loopDevices() : [loopDevice];
  await until(`the disk of ${key} is released`, () => !devices.some((number) => isLoopDeviceBackedBy(number, image)));
}

function loopDevices(): number[] {
  return readdirSync('/sys/block')
    .filter((name) => name.startsWith('loop'))
    .map((name) => Number(name.slice('loop'.length)));
}
