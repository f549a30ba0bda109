import { closeSync, openSync, readFileSync } from 'node:fs';
import { bindLibc, checked, errorCode } from './libc.ts';

const ioctlCall = bindLibc('int ioctl(int fd, ulong request, void *argument)');
const mknodCall = bindLibc('int mknod(const char *path, uint mode, uint64_t device)');

const LOOP_CTL_GET_FREE = 0x4c82;
const LOOP_CONFIGURE = 0x4c0a;
const BLKFLSBUF = 0x1261;
const LO_FLAGS_AUTOCLEAR = 4;
const CONFIG_BYTES = 304;
const CONFIG_FLAGS_AT = 60;
/** Major device number of loop devices. */
const LOOP_MAJOR = 7;
const S_IFBLK = 0o060000;
/** Attempts to attach; other programs also take free devices, and each collision costs one attempt. */
const ATTEMPTS = 64;

export interface LoopDevice {
  number: number;
  path: string;
  /**
   * Keeps the device attached until it is mounted; the kernel frees it after the last close or unmount, even if
   * processes are killed.
   */
  fd: number;
}

/**
 * Attaches a file to a free loop device. The kernel detaches the file when the device's last user is gone. The device
 * is read-only if `fileFd` is. The caller closes `fd`.
 */
export function attachLoopDevice(fileFd: number): LoopDevice {
  const control = openSync('/dev/loop-control', 'r+');
  try {
    for (let attempt = 1; ; attempt += 1) {
      const number = checked(ioctlCall(control, LOOP_CTL_GET_FREE, null), 'ioctl', 'LOOP_CTL_GET_FREE');
      const device = tryAttach(number, fileFd, attempt < ATTEMPTS);
      if (device) return device;
    }
  } finally {
    closeSync(control);
  }
}

function tryAttach(number: number, fileFd: number, mayBeTaken: boolean): LoopDevice | undefined {
  const path = `/dev/loop${number}`;
  const config = Buffer.alloc(CONFIG_BYTES);
  config.writeUInt32LE(fileFd, 0);
  config.writeUInt32LE(LO_FLAGS_AUTOCLEAR, CONFIG_FLAGS_AT);
  const fd = openDevice(number, 'r+');
  try {
    checked(ioctlCall(fd, LOOP_CONFIGURE, config), 'ioctl', `LOOP_CONFIGURE ${path}`);
    return { number, path, fd };
  } catch (error) {
    closeSync(fd);
    if (mayBeTaken && errorCode(error) === 'EBUSY') return undefined;
    throw error;
  }
}

/**
 * Opens a loop device whose attached file had `path`, even if the file was unlinked since. The file stays attached
 * until the caller closes the descriptor. Throws if another file, or none, is attached.
 */
export function openLoopDevice(number: number, path: string): number {
  const fd = openDevice(number, 'r');
  // Checked after the open: from then on no other file can be attached.
  if (isLoopDeviceBackedBy(number, path)) return fd;
  closeSync(fd);
  throw new Error(`/dev/loop${number} does not have ${path} attached`);
}

/**
 * Opens a loop device. Creates its device file if that is missing: `/dev` of a container has files only for the devices
 * that the kernel had when the container started.
 */
function openDevice(number: number, flags: 'r' | 'r+'): number {
  const path = `/dev/loop${number}`;
  try {
    return openSync(path, flags);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
  try {
    const device = (LOOP_MAJOR << 8) | (number & 0xff) | ((number & ~0xff) << 12);
    checked(mknodCall(path, S_IFBLK | 0o660, device), 'mknod', path);
  } catch (error) {
    // Another process has made it meanwhile.
    if (errorCode(error) !== 'EEXIST') throw error;
  }
  return openSync(path, flags);
}

/** Discards the cached blocks of a device, because its mounted file system may have written newer ones. */
export function refreshDevice(fd: number): void {
  checked(ioctlCall(fd, BLKFLSBUF, null), 'ioctl', 'BLKFLSBUF');
}

/** Returns whether the file attached to the loop device had `path`, even if the file was unlinked since. */
export function isLoopDeviceBackedBy(number: number, path: string): boolean {
  try {
    const backingFile = readFileSync(`/sys/block/loop${number}/loop/backing_file`, 'utf8').trimEnd();
    return backingFile.replace(/ \(deleted\)$/, '') === path;
  } catch (error) {
    // No file is attached, or it was detached meanwhile.
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'ENXIO' || errorCode(error) === 'ENODEV') return false;
    throw error;
  }
}
