import { closeSync, mkdirSync, openSync, rmdirSync, statfsSync } from 'node:fs';
import { until } from '../base/until.ts';
import { errorCode } from '../linux/libc.ts';
import { openLoopDevice, refreshDevice } from '../linux/loop-device.ts';
import { detachMount, hasFolder, MS_NOATIME, MS_NODEV, MS_NOSUID, makeReadOnly, mountDisk } from '../linux/mounts.ts';
import { type ByteRange, freeRanges, sumOf, withoutRanges } from '../linux/used-ranges.ts';

/** Far more parts than a disk has, unless its files were scattered on purpose. */
const MAX_RANGES = 65_536;

/**
 * The disk of an instance, mounted once more in hostd's own mount namespace, so that it outlives the instance. It is
 * never searched: the kernel says which parts of it are used.
 */
export class CapturedDisk implements Disposable {
  readonly deviceFd: number;
  /** Mount point. */
  readonly dir: string;
  #isOpen = true;

  private constructor(deviceFd: number, dir: string) {
    this.deviceFd = deviceFd;
    this.dir = dir;
  }

  /** @param imagePath path that the image of the disk had */
  static async open(loopDevice: number, imagePath: string, dir: string): Promise<CapturedDisk> {
    const deviceFd = openLoopDevice(loopDevice, imagePath);
    try {
      mkdirSync(dir, { mode: 0o700 });
      const source = `/dev/loop${loopDevice}`;
      // The same file system as that of the instance. It stays writable until the instance has ended.
      const flags = MS_NODEV | MS_NOSUID | MS_NOATIME;
      await mountDisk({ type: 'ext4', source, target: dir, flags }).catch((error) => {
        rmdirSync(dir);
        throw error;
      });
      return new CapturedDisk(deviceFd, dir);
    } catch (error) {
      closeSync(deviceFd);
      throw error;
    }
  }

  /** Resolves when no process can write to the disk any more and all of it is on the device. */
  async settle(): Promise<void> {
    await until(`${this.dir} is read-only`, () => {
      try {
        makeReadOnly(this.dir);
        return true;
      } catch (error) {
        if (errorCode(error) === 'EBUSY') return false;
        throw error;
      }
    });
    refreshDevice(this.deviceFd);
  }

  /**
   * Returns the used parts of the disk. Call after `settle`. Returns the whole disk if the kernel reports more free
   * parts than it counts free blocks.
   *
   * @throws RangeError for a disk in too many parts
   */
  async usedRanges(diskBytes: number): Promise<ByteRange[]> {
    const fd = openSync(this.dir, 'r');
    try {
      const free = await freeRanges(fd, MAX_RANGES);
      const { bfree, bsize } = statfsSync(this.dir);
      return withoutRanges(diskBytes, sumOf(free) <= bfree * bsize ? free : []);
    } finally {
      closeSync(fd);
    }
  }

  /** Returns whether the instance has that folder in its root, on its own disk, and not as a link. */
  hasFolder(name: string): boolean {
    return hasFolder(`${this.dir}/upper`, name);
  }

  /** Idempotent. */
  [Symbol.dispose](): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    detachMount(this.dir);
    rmdirSync(this.dir);
    closeSync(this.deviceFd);
  }
}
