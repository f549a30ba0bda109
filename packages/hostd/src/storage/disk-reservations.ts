import { statfsSync } from 'node:fs';
import { defaultDiskReserveBytes } from '@cloche/layout';
import { HostdError } from '../base/hostd-error.ts';
import type { InstanceRecords } from '../instance/instance-records.ts';

const MEBIBYTE = 1024 * 1024;

export interface DiskReservationsOptions {
  /** Folder on the volume of the disks. */
  readonly folder: string;
  readonly records: Pick<InstanceRecords, 'keys' | 'read'>;
  /** How many times the free space may be promised. */
  readonly overcommit: number;
  /** Bytes of the volume that stay free; by default a share of the volume. */
  readonly reserveBytes?: number | undefined;
  readonly read?: typeof statfsSync;
}

/**
 * Limits how much space is promised to the disks of sandboxes. The disks are sparse, so together they may be larger
 * than their volume: at most `overcommit` times the free space.
 */
export class DiskReservations {
  readonly #options: DiskReservationsOptions;

  constructor(options: DiskReservationsOptions) {
    this.#options = options;
  }

  /**
   * Checks whether a new disk may be made. Disks of unclaimed instances give way to those of sandboxes.
   *
   * @throws HostdError `no_capacity`
   */
  assertCapacity(diskBytes: number, { isPooled }: { isPooled: boolean }): void {
    const { folder, overcommit, reserveBytes, read = statfsSync } = this.#options;
    const { blocks, bavail, bsize } = read(folder);
    const reserve = reserveBytes ?? defaultDiskReserveBytes(blocks * bsize);
    const free = Math.max(0, bavail * bsize - reserve);
    const promised = this.#reservedBytes(isPooled) + diskBytes;
    if (promised <= free * overcommit) return;
    const [promisedMb, freeMb] = [promised, free].map((bytes) => Math.floor(bytes / MEBIBYTE));
    throw new HostdError(
      'no_capacity',
      `the disks of sandboxes would have ${promisedMb} MiB in total, with ${freeMb} MiB free above the reserve (CLOCHE_DISK_OVERCOMMIT is ${overcommit})`,
    );
  }

  #reservedBytes(withPooled: boolean): number {
    const { records } = this.#options;
    let bytes = 0;
    for (const key of records.keys()) {
      const record = records.read(key);
      // An instance that is being removed writes no more.
      const counts = record?.status !== 'ending' && (withPooled || record?.status !== 'pooled');
      if (counts) bytes += record?.diskBytes ?? 0;
    }
    return bytes;
  }
}
