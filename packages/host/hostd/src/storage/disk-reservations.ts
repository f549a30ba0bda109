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
    const { overcommit } = this.#options;
    const free = this.#freeBytes();
    const promised = this.#reservedBytes(isPooled) + diskBytes;
    if (promised <= free * overcommit) return;
    const [promisedMb, freeMb] = [promised, free].map((bytes) => Math.floor(bytes / MEBIBYTE));
    throw new HostdError(
      'no_capacity',
      `the disks of sandboxes would have ${promisedMb} MiB in total, with ${freeMb} MiB free above the reserve (CLOCHE_DISK_OVERCOMMIT is ${overcommit})`,
    );
  }

  /**
   * Checks whether so many bytes can be written to the volume at once.
   *
   * @throws HostdError `no_capacity`
   */
  assertFree(bytes: number): void {
    const free = this.#freeBytes();
    if (bytes <= free) return;
    const [neededMb, freeMb] = [bytes, free].map((each) => Math.ceil(each / MEBIBYTE));
    throw new HostdError('no_capacity', `${neededMb} MiB are needed, and ${freeMb} MiB are free above the reserve`);
  }

  #freeBytes(): number {
    const { folder, reserveBytes, read = statfsSync } = this.#options;
    const { blocks, bavail, bsize } = read(folder);
    return Math.max(0, bavail * bsize - (reserveBytes ?? defaultDiskReserveBytes(blocks * bsize)));
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
