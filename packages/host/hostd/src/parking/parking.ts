import { join } from 'node:path';
import type { ParkedDisk, ParkedInstance } from '@cloche/protocol';
import type { Logger } from 'pino';
import { HostdError } from '../base/hostd-error.ts';
import { idRangeOfSlot } from '../base/id-range.ts';
import { CapturedDisk } from '../capture/captured-disk.ts';
import type { Cgroups } from '../cgroups/cgroups.ts';
import type { InstanceKey, InstanceName } from '../instance/instance-key.ts';
import type { InstanceRecords, LiveRecord } from '../instance/instance-records.ts';
import { versionOfSource } from '../instance/instance-source.ts';
import type { Instances } from '../instances/instances.ts';
import { syncFileSystem, trimFileSystem } from '../linux/write-out.ts';
import type { FrozenInstances } from '../memory/frozen-instances.ts';
import type { InstanceMeter } from '../metering/instance-meter.ts';
import type { Runtime } from '../oci/runtime.ts';
import type { DiskImages } from '../storage/disk-image.ts';
import type { ParkedDisks, ParkedRecord } from '../storage/parked-disks.ts';

export interface ParkingDeps {
  instances: Instances;
  records: InstanceRecords;
  runtime: Pick<Runtime, 'writeBack'>;
  cgroups: Cgroups;
  frozen: Pick<FrozenInstances, 'thaw'>;
  meter: Pick<InstanceMeter, 'trafficOf' | 'useOf'>;
  diskImages: DiskImages;
  parkedDisks: ParkedDisks;
  removeInstance: (key: InstanceKey) => Promise<void>;
  /** Mount points, visible only in hostd's own mount namespace. */
  mountsDir: string;
  log: Logger;
  /** Called after each step that a crash may follow. */
  onStep?: ((step: string) => void) | undefined;
}

/**
 * Keeps the disks of instances beyond their ends. A disk is named before anything is ended, so whatever is interrupted
 * leaves the instance alive or the disk whole.
 */
export class Parking {
  readonly #host: ParkingDeps;

  constructor(deps: ParkingDeps) {
    this.#host = deps;
  }

  /** Whether this host can keep disks. */
  get isAvailable(): boolean {
    return this.#host.diskImages.canName;
  }

  /**
   * Keeps the disk of a live instance, running or frozen, with all that was written before the call. Idempotent: keeps
   * what was written since as well. Throws `instance_not_found`, `disk_unkeepable`.
   */
  async keep(name: InstanceName): Promise<ParkedDisk> {
    const { instances, parkedDisks } = this.#host;
    return instances.runAlone(name, async (key, living) => {
      using disk = await this.#openDisk(key, living);
      return parkedDisks.describe(await this.#keep(key, living, disk));
    });
  }

  /**
   * Ends an instance and keeps its disk. Idempotent: an instance that has ended and whose disk is kept is parked. Throws
   * `instance_not_found`, `disk_unkeepable`; the instance then goes on. After any other failure the disk is kept, and the
   * instance may have ended.
   */
  async park(name: InstanceName): Promise<ParkedInstance> {
    const { instances, records, parkedDisks, removeInstance } = this.#host;
    return instances.runInTurn(name, async (key, living) => {
      if (living) return this.#park(key, living);
      const kept = parkedDisks.find(name);
      if (kept === undefined)
        throw new HostdError('instance_not_found', `the instance ${key} does not run on this host`);
      if (records.read(key)) await removeInstance(key);
      return { disk: parkedDisks.describe(kept) };
    });
  }

  list(): ParkedDisk[] {
    return this.#host.parkedDisks.list();
  }

  /** Removes a kept disk. An instance that uses it keeps it. Idempotent. */
  async remove(name: InstanceName): Promise<void> {
    await this.#host.instances.runInTurn(name, async () => this.#host.parkedDisks.remove(name));
  }

  async #park(key: InstanceKey, living: LiveRecord): Promise<ParkedInstance> {
    const { parkedDisks, removeInstance, log, onStep } = this.#host;
    const startedAt = performance.now();
    using disk = await this.#openDisk(key, living);
    // A kept disk already survives what follows.
    if (parkedDisks.find(living) === undefined) await this.#keep(key, living, disk);
    onStep?.('kept');
    try {
      const use = await this.#end(key, living);
      onStep?.('ended');
      await trimFileSystem(disk.dir);
      await syncFileSystem(disk.dir);
      await disk.settle();
      onStep?.('settled');
      const record = await parkedDisks.save(parkedRecord(living, { isClean: true }));
      onStep?.('parked');
      log.info({ operation: 'park', instance: key, durationMs: Math.round(performance.now() - startedAt) });
      return { disk: parkedDisks.describe(record), ...(use && { use }) };
    } finally {
      disk[Symbol.dispose]();
      await removeInstance(key);
    }
  }

  async #end(key: InstanceKey, living: LiveRecord): Promise<ParkedInstance['use']> {
    const { records, cgroups, frozen, runtime, meter, log } = this.#host;
    // Read before the kill, because the kernel removes the link soon after the last process.
    const traffic = meter.trafficOf(living);
    // A frozen guest could not end by itself.
    frozen.thaw(key);
    // A guest that does not end is killed like any other, and loses what it has not written.
    await runtime
      .writeBack({ key, bundleDir: records.folderOf(key) }, living.init)
      .catch((err) => log.warn({ operation: 'park', instance: key, err }));
    // From here on, a hostd that starts anew removes the instance, and the disk stays.
    records.write(key, { ...living, status: 'ending' });
    cgroups.kill(key);
    const use = meter.useOf(key, living, traffic);
    await cgroups.destroy(key);
    return use;
  }

  /** Names the image of a live instance's disk. What was written before is then on the disk of the host. */
  async #keep(key: InstanceKey, living: LiveRecord, disk: CapturedDisk): Promise<ParkedRecord> {
    const { diskImages, parkedDisks, onStep } = this.#host;
    const { image } = living;
    if (image === undefined) throw new Error('the disk was opened without an image');
    parkedDisks.makeFolder(living);
    diskImages.name(key, image, parkedDisks.imageOf(living));
    onStep?.('named');
    const record = parkedRecord(living, { isClean: false });
    await syncFileSystem(disk.dir);
    return parkedDisks.save(record);
  }

  /** Mounts the disk of an instance in hostd's namespace, where it outlives the instance. */
  async #openDisk(key: InstanceKey, { image, loopDevice }: LiveRecord): Promise<CapturedDisk> {
    const { diskImages, mountsDir } = this.#host;
    if (!this.isAvailable || image === undefined)
      throw new HostdError('disk_unkeepable', `the disk of ${key} was made so that it ends with the instance`);
    return CapturedDisk.open(loopDevice, diskImages.shownPath(key, image), join(mountsDir, `park-${key}`));
  }
}

function parkedRecord(living: LiveRecord, { isClean }: { isClean: boolean }): Omit<ParkedRecord, 'bootId'> {
  const { sandboxId, generation, source, diskBytes, slot, firstId = idRangeOfSlot(slot).base } = living;
  const templateVersionId = versionOfSource(source);
  return { sandboxId, generation, templateVersionId, diskBytes, firstId, keptAt: new Date().toISOString(), isClean };
}
