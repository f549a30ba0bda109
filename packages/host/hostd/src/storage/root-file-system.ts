import {
  chmodSync,
  chownSync,
  closeSync,
  constants,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { GUEST_PATH } from '@cloche/layout';
import type { IdRange } from '../base/id-range.ts';
import type { UndoStack } from '../base/undo-stack.ts';
import { errorCode } from '../linux/libc.ts';
import { attachLoopDevice } from '../linux/loop-device.ts';
import {
  bindReadOnly,
  bindReadOnlyIn,
  detachMount,
  MS_NOATIME,
  MS_NODEV,
  MS_NOSUID,
  MS_RDONLY,
  mountDisk,
  mountFileSystem,
} from '../linux/mounts.ts';
import { UserNamespace } from '../linux/user-namespace.ts';

/** Path of the CA bundle in templates, which are Debian's and its derivatives'. */
const CA_BUNDLE_PATH = '/etc/ssl/certs/ca-certificates.crt';

/** Name of the CA bundle in the folders that hold it on the host. */
export const TRUST_FILE = 'ca-certificates.crt';

/** The mount points of one instance, all in hostd's own mount namespace. */
export interface RootPaths {
  lowerDir: string;
  diskDir: string;
  sharedDir: string;
  rootDir: string;
}

export function rootPaths(mountsDir: string, key: string): RootPaths {
  const folder = join(mountsDir, key);
  const at = (name: string) => join(folder, name);
  return { lowerDir: at('lower'), diskDir: at('disk'), sharedDir: at('shared'), rootDir: at('root') };
}

/** Creates the mount points; the undo step also detaches what is mounted there by then. */
export function makeMountPoints(paths: RootPaths, undo: UndoStack): void {
  const folder = join(paths.rootDir, '..');
  undo.push('mount points', () => removeMountPoints(paths));
  for (const dir of [folder, paths.lowerDir, paths.diskDir, paths.sharedDir, paths.rootDir])
    mkdirSync(dir, { mode: 0o711 });
}

/**
 * Removes the instance's mounts from hostd's namespace. A running container keeps them in its own, so the kernel
 * removes them, and the disk below, when the container is gone, even if hostd has died by then. Idempotent.
 */
export function removeMountPoints({ lowerDir, diskDir, sharedDir, rootDir }: RootPaths): void {
  for (const dir of [rootDir, sharedDir, diskDir, lowerDir]) {
    detachIfMounted(dir);
    ignoring(['ENOENT'], () => rmdirSync(dir));
  }
  removeFolderOfMounts(join(rootDir, '..'));
}

/** Removes the folder of the mount points. Any mount points left in it are those of layers. */
function removeFolderOfMounts(folder: string): void {
  try {
    rmdirSync(folder);
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return;
    if (errorCode(error) !== 'ENOTEMPTY') throw error;
    for (const name of readdirSync(folder)) {
      detachIfMounted(join(folder, name));
      rmdirSync(join(folder, name));
    }
    rmdirSync(folder);
  }
}

/** Mounts the instance's own disk and returns the number of its loop device. */
export async function mountOwnDisk(imageFd: number, diskDir: string): Promise<number> {
  const device = attachLoopDevice(imageFd);
  try {
    await mountDisk({
      type: 'ext4',
      source: device.path,
      target: diskDir,
      flags: MS_NODEV | MS_NOSUID | MS_NOATIME,
      // A disk that outlives a crash is checked before its next use, so durability is not needed: no barriers, no flush
      // when a file replaces another, and no thread that zeroes inode tables.
      options: 'nobarrier,noauto_da_alloc,noinit_itable,errors=remount-ro',
    });
    return device.number;
  } finally {
    closeSync(device.fd);
  }
}

/** Mounts the template's files, which belong to host ids from 0 on, with owners shifted to the sandbox's ids. */
export function mountTemplate(templateRootfsDir: string, userNamespace: UserNamespace, lowerDir: string): void {
  bindReadOnly(templateRootfsDir, lowerDir, userNamespace.fd);
}

/**
 * Mounts layers, each with owners shifted from the ids of the captured sandbox to those of this one. Returns their
 * mount points.
 */
export function mountLayers(folders: readonly LayerFolder[], idRange: IdRange, { rootDir }: RootPaths): string[] {
  const namespaces = new Map<number, UserNamespace>();
  try {
    return folders.map(({ path, firstId }, index) => {
      const mountPoint = join(rootDir, '..', `layer-${index}`);
      mkdirSync(mountPoint, { mode: 0o711 });
      const namespace = namespaces.get(firstId) ?? new UserNamespace(idRange, firstId);
      namespaces.set(firstId, namespace);
      bindReadOnly(path, mountPoint, namespace.fd);
      return mountPoint;
    });
  } finally {
    for (const namespace of namespaces.values()) namespace[Symbol.dispose]();
  }
}

/** A folder of a mounted layer, and the first of the host ids that its files belong to. */
export interface LayerFolder {
  path: string;
  firstId: number;
}

/** The folders that hostd and the runtimes mount over, and their modes, parents first. */
export const GUEST_FOLDERS = [
  { path: dirname(GUEST_PATH), mode: 0o755 },
  { path: GUEST_PATH, mode: 0o755 },
  { path: '/tmp', mode: 0o1777 },
] as const;

/** Contents of the sandbox's own initial files, by their path in the sandbox. */
export type EtcFiles = Record<`/etc/${string}`, string>;

/** Makes the folders of a fresh disk that an overlay needs, and the sandbox's initial files. */
export function fillDisk(diskDir: string, idRange: IdRange, files: EtcFiles, hasOwnFolders: boolean): void {
  const upper = upperOf(diskDir);
  for (const dir of [upper, join(diskDir, 'work'), join(upper, 'etc')]) makeOwned(dir, idRange);
  for (const [path, content] of Object.entries(files)) {
    const file = join(upper, path);
    writeFileSync(file, content, { mode: 0o644, flag: 'wx' });
    chownSync(file, idRange.base, idRange.base);
  }
  if (hasOwnFolders) restoreGuestFolders(upper, idRange);
}

/** Returns the folder of the sandbox's files on its disk. */
export function upperOf(diskDir: string): string {
  return join(diskDir, 'upper');
}

/**
 * Makes the folders that hostd and the runtimes mount over, on the sandbox's own disk. A layer, or the sandbox itself,
 * may have put anything in their place, links to the host's folders included.
 *
 * SECURITY: gVisor binds `/tmp` by its path on the host (hostile-layers.runtime.test.ts, kept-disks.runtime.test.ts).
 */
export function restoreGuestFolders(upper: string, { base }: IdRange): void {
  for (const { path, mode } of GUEST_FOLDERS) {
    const folder = join(upper, path);
    if (lstatSync(folder, { throwIfNoEntry: false })?.isDirectory()) continue;
    rmSync(folder, { force: true });
    mkdirSync(folder);
    chmodSync(folder, mode);
    chownSync(folder, base, base);
  }
}

/**
 * Overlays template and layers with the sandbox's own disk and mounts them as its root.
 *
 * @param lowers mount points, the uppermost first
 */
export function mountOverlay(paths: RootPaths, lowers: readonly string[]): void {
  withOverlayPaths([paths.diskDir, ...lowers], (disk, ...lower) =>
    mountFileSystem({
      type: 'overlay',
      source: 'overlay',
      target: paths.rootDir,
      flags: MS_NODEV | MS_NOSUID | MS_NOATIME,
      // `volatile`: a sync in the sandbox need not reach the disk; hostd syncs the disks that it keeps. The other two
      // options override the host's defaults: no file of a layer refers to content elsewhere, and no folder is
      // redirected.
      options: `lowerdir=${lower.join(':')},upperdir=${disk}/upper,workdir=${disk}/work,volatile,redirect_dir=nofollow,metacopy=off`,
    }),
  );
}

/**
 * Mounts agent and kernels, and the authorities to trust, read-only in the root. Each sandbox has an overlay of its
 * own: `flock` and `inotify` on these files do not reach other sandboxes, and the mount reveals no path of the host.
 *
 * @param trustDir folder with the authorities as `TRUST_FILE`, or empty
 */
export function mountShared({ rootDir, sharedDir }: RootPaths, guestDir: string, trustDir: string): void {
  withOverlayPaths([guestDir, trustDir], (guest, trust) =>
    mountFileSystem({
      type: 'overlay',
      source: 'overlay',
      target: sharedDir,
      flags: MS_RDONLY | MS_NODEV | MS_NOSUID,
      options: `lowerdir=${guest}:${trust}`,
    }),
  );
  bindReadOnlyIn(rootDir, sharedDir, GUEST_PATH);
  ignoring(['ENOENT', 'ENOTDIR', 'ELOOP'], () => bindReadOnlyIn(rootDir, join(sharedDir, TRUST_FILE), CA_BUNDLE_PATH));
}

/** Passes folders as descriptors, because the kernel shows an overlay's paths to the sandbox as they were given. */
function withOverlayPaths(folders: readonly string[], mount: (first: string, ...others: string[]) => void): void {
  const fds: number[] = [];
  try {
    for (const folder of folders) fds.push(openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY));
    const [first = '', ...others] = fds.map((fd) => `/proc/self/fd/${fd}`);
    mount(first, ...others);
  } finally {
    for (const fd of fds) closeSync(fd);
  }
}

/** Folder of named shared memory on a disk. */
export const SHARED_MEMORY = 'shm';

/** Makes a folder for named shared memory where no in-memory file system is used; the disk's size limits it. */
export function makeSharedMemoryFolder(diskDir: string): string {
  const folder = join(diskDir, SHARED_MEMORY);
  mkdirSync(folder);
  chmodSync(folder, 0o1777);
  return folder;
}

/** Opens standard input, output and error of a sandbox's first process. The caller closes them. */
export function openConsole(diskDir: string): [stdin: number, stdout: number, stderr: number] {
  // SECURITY: the runtime gives these files to the sandbox's root, so the host's /dev/null must not be among them
  // (launcher.runtime.test.ts). They are on the sandbox's own disk, which limits them, and have no name in the sandbox.
  const input = join(diskDir, 'stdin');
  writeFileSync(input, '', { flag: 'wx' });
  const stdin = openSync(input, 'r');
  const output = openSync(join(diskDir, 'console.log'), 'ax', 0o600);
  return [stdin, output, output];
}

function makeOwned(dir: string, { base }: IdRange): void {
  mkdirSync(dir, { mode: 0o755 });
  chownSync(dir, base, base);
}

function detachIfMounted(dir: string): void {
  ignoring(['EINVAL', 'ENOENT'], () => detachMount(dir));
}

function ignoring(codes: readonly string[], act: () => void): void {
  try {
    act();
  } catch (error) {
    if (!codes.includes(errorCode(error) ?? '')) throw error;
  }
}
