import { closeSync } from 'node:fs';
import type { IdRange } from '../base/id-range.ts';
import type { UndoStack } from '../base/undo-stack.ts';
import type { InstanceRecords } from '../instance/instance-records.ts';
import { checkDisk } from '../storage/check-disk.ts';
import type { DiskImages, OpenImage } from '../storage/disk-image.ts';
import type { DiskReservations } from '../storage/disk-reservations.ts';
import { adoptDisk, rewriteFile } from '../storage/kept-disk.ts';
import { needsCheck, type ParkedDisks } from '../storage/parked-disks.ts';
import {
  type EtcFiles,
  fillDisk,
  makeMountPoints,
  mountOwnDisk,
  type RootPaths,
  restoreGuestFolders,
  upperOf,
} from '../storage/root-file-system.ts';
import { diskIsReleased } from '../teardown/remove-instance.ts';
import type { LaunchPlan } from './launch-plan.ts';

export interface LaunchDiskDeps {
  records: InstanceRecords;
  diskImages: DiskImages;
  diskReservations: DiskReservations;
  parkedDisks: ParkedDisks;
}

/** The disk of an instance that is launched: a fresh one, or the one that an earlier incarnation left. */
export class LaunchDisk implements Disposable {
  readonly #host: LaunchDiskDeps;
  readonly #plan: LaunchPlan;
  #image: OpenImage | undefined;
  #isClosed = false;

  constructor(host: LaunchDiskDeps, plan: LaunchPlan) {
    this.#host = host;
    this.#plan = plan;
  }

  /**
   * Opens the image, and writes the record of the launch before anything else is created. Throws `no_capacity`.
   *
   * @param undo gets the steps that release the disk
   */
  async open(undo: UndoStack): Promise<void> {
    const { records, diskImages, diskReservations, parkedDisks } = this.#host;
    const { key, source, resources, sandbox, parked } = this.#plan;
    const { diskBytes } = resources;
    const isPooled = sandbox === undefined;
    undo.push('image', () => diskImages.remove(key));
    if (parked) {
      diskReservations.assertCapacity(diskBytes, { isPooled });
      parkedDisks.noteUse(parked);
      this.#image = diskImages.openKept(key, parkedDisks.imageOf(parked));
    } else {
      const fresh = await diskImages.prepare(diskBytes);
      // No other launch comes between this check and the record, which the next check counts.
      diskReservations.assertCapacity(diskBytes, { isPooled });
      this.#image = diskImages.create(key, fresh);
    }
    records.write(key, { status: 'launching', diskBytes, source, image: this.#image.reference });
  }

  /** Fields of the instance's record that describe its disk. */
  get recorded() {
    const { parked, resources } = this.#plan;
    const { diskBytes } = resources;
    return { diskBytes, image: this.#opened.reference, ...(parked && { firstId: parked.firstId }) };
  }

  /** Mounts the disk and returns the number of its loop device. Throws `disk_broken`. */
  async mount(paths: RootPaths, idRange: IdRange, undo: UndoStack): Promise<number> {
    const { key, parked } = this.#plan;
    const { fd } = this.#opened;
    if (parked && needsCheck(parked)) await checkDisk(fd, idRange);
    undo.push('disk', () => diskIsReleased(key, this.#host, this.#host.records.read(key)));
    makeMountPoints(paths, undo);
    const loopDevice = await mountOwnDisk(fd, paths.diskDir);
    this[Symbol.dispose]();
    if (parked) await adoptDisk(paths.diskDir, parked.firstId, idRange);
    return loopDevice;
  }

  /** Makes what the sandbox's root needs on the disk. */
  fill(diskDir: string, idRange: IdRange, files: EtcFiles, hasOwnFolders: boolean): void {
    if (this.#plan.parked === undefined) {
      fillDisk(diskDir, idRange, files, hasOwnFolders);
      return;
    }
    const upper = upperOf(diskDir);
    restoreGuestFolders(upper, idRange);
    // The other files are the same for each sandbox, and may have been changed in it.
    rewriteFile(upper, 'etc/resolv.conf', files['/etc/resolv.conf'] ?? '');
  }

  [Symbol.dispose](): void {
    if (this.#image && !this.#isClosed) closeSync(this.#image.fd);
    this.#isClosed = true;
  }

  get #opened(): OpenImage {
    if (this.#image === undefined) throw new Error('the disk is not open');
    return this.#image;
  }
}
