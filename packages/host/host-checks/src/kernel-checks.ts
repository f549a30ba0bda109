import { execFile } from 'node:child_process';
import { access, readFile } from 'node:fs/promises';
import { release } from 'node:os';
import { promisify } from 'node:util';
import { staticProgram } from '@cloche/layout';
import { findV2Mount, NEEDED_CONTROLLERS, readCgroupLayout } from '../starter/cgroup-layout.mjs';
import { isNewKernel, OLDEST_KERNEL } from '../starter/kernel.mjs';
import { nearestFolder } from '../starter/nearest-folder.mjs';
import { type Finding, missing, ok, warning } from './finding.ts';

const run = promisify(execFile);

/** Longest time of a try, on a machine with other work. */
const TRY_MS = 30_000;

const NEWER_KERNEL = `Use a host with Linux ${OLDEST_KERNEL.join('.')} or newer.`;

export function checkRoot(uid = process.getuid?.()): Finding {
  return uid === 0
    ? ok('root', 'uid 0')
    : missing('root', `uid ${uid}`, 'Run this command as root, for example with `sudo`.');
}

export function checkKernel(version = release()): Finding {
  return isNewKernel(version) ? ok('kernel', version) : missing('kernel', version, NEWER_KERNEL);
}

/**
 * Tries an idmapped mount, which shifts the owners of a template's files for each sandbox. Not every file system has
 * them: overlayfs, the root of most containers, and NFS do not.
 *
 * @param cacheDir folder of the templates, which need not exist yet
 */
export async function checkIdmappedMounts(cacheDir: string): Promise<Finding> {
  const name = 'idmapped mounts';
  const folder = nearestFolder(cacheDir);
  try {
    await run(staticProgram('try-idmapped-mount'), [folder], { timeout: TRY_MS });
    return ok(name, `on ${await fileSystemOf(folder)}, of ${cacheDir}`);
  } catch (error) {
    const { stderr = '' } = error as { stderr?: string };
    const found = `none on ${await fileSystemOf(folder)}, of ${cacheDir} (${stderr.trim()})`;
    return missing(name, found, 'Set CLOCHE_CACHE_DIR to a folder on ext4, xfs or btrfs, in a container to a volume.');
  }
}

async function fileSystemOf(folder: string): Promise<string> {
  const list = run('findmnt', ['--noheadings', '--output', 'FSTYPE', '--target', folder]);
  return list.then(
    ({ stdout }) => stdout.trim(),
    () => 'an unknown file system',
  );
}

export async function checkUserNamespaces(): Promise<Finding> {
  const limit = (await readText('/proc/sys/user/max_user_namespaces')).trim();
  if (limit === '' || limit === '0') {
    return missing(
      'user namespaces',
      'switched off',
      'Run `sysctl -w user.max_user_namespaces=65536` and keep it in /etc/sysctl.d.',
    );
  }
  const own = ['--user', '--map-root-user'];
  try {
    await run('unshare', [...own, 'true']);
  } catch {
    return missing(
      'user namespaces',
      'refused',
      'Allow them on this host: see the sysctls kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns, or the limits of the container that this runs in.',
    );
  }
  try {
    // The kernel refuses it where a part of `/proc` is covered, as in most containers.
    await run('unshare', [...own, '--pid', '--fork', '--mount-proc', 'true']);
    return ok('user namespaces', `up to ${limit}`);
  } catch {
    return missing(
      'user namespaces',
      'without a /proc of their own, because parts of /proc are covered here',
      'Start this container with `--privileged` (Docker, Podman), with /usr/share/lxc/config/nesting.conf (LXC) or `nesting=1` (Proxmox).',
    );
  }
}

export async function checkCgroups(): Promise<Finding> {
  const mountInfo = await readText('/proc/self/mountinfo');
  const v2Mount = findV2Mount(mountInfo);
  const layout = readCgroupLayout(mountInfo, v2Mount ? await readText(`${v2Mount}/cgroup.controllers`) : '');
  const lacking = NEEDED_CONTROLLERS.filter((name) => layout.controllers[name] === undefined);
  if (lacking.length > 0) {
    return missing(
      'cgroups',
      `${layout.kind}, without ${lacking.join(', ')}`,
      'Mount the cgroup hierarchies with memory, cpu and pids, and boot without cgroup_disable.',
    );
  }
  const first = mountOptionsOf(mountInfo);
  if (first === 'ro')
    return missing('cgroups', 'mounted read-only', 'Give this container writable cgroups, or run on the host itself.');
  return ok(
    'cgroups',
    `${layout.kind}: ${NEEDED_CONTROLLERS.map((name) => `${name} ${layout.controllers[name]}`).join(', ')}`,
  );
}

/**
 * Checks kernel memory accounting, by which a sandbox's memory limit covers open files, threads, sockets and directory
 * entries.
 */
export function checkKernelMemory(commandLine: string): Finding {
  const name = 'kernel memory';
  if (!/\bcgroup\.memory=\S*\bnokmem\b/.test(commandLine)) return ok(name, 'charged to cgroups');
  const remedy = 'Boot without cgroup.memory=nokmem: sandboxes can use up the memory of the host by open files.';
  return warning(name, 'not charged to cgroups (cgroup.memory=nokmem)', remedy);
}

/** Returns `ro` when every cgroup mount is read-only. */
function mountOptionsOf(mountInfo: string): 'ro' | 'rw' {
  const mounts = mountInfo.split('\n').filter((line) => / - cgroup2? /.test(line));
  return mounts.some((line) => line.split(' ')[5]?.split(',').includes('rw')) ? 'rw' : 'ro';
}

export async function checkOverlay(): Promise<Finding> {
  if (await hasFileSystem('overlay')) return ok('overlayfs', 'in the kernel');
  await run('modprobe', ['overlay']).catch(() => {});
  return (await hasFileSystem('overlay'))
    ? ok('overlayfs', 'as a module')
    : missing('overlayfs', 'not in this kernel', 'Use a kernel with CONFIG_OVERLAY_FS.');
}

export async function checkLoopDevices(): Promise<Finding> {
  return access('/dev/loop-control').then(
    () => ok('loop devices', '/dev/loop-control'),
    () =>
      missing('loop devices', 'no /dev/loop-control', 'Run `modprobe loop`, or give this container the loop devices.'),
  );
}

async function hasFileSystem(name: string): Promise<boolean> {
  return (await readText('/proc/filesystems')).split('\n').some((line) => line.split('\t')[1] === name);
}

async function readText(file: string): Promise<string> {
  return readFile(file, 'utf8').catch(() => '');
}
