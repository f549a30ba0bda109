import { execFile } from 'node:child_process';
import { access, readFile } from 'node:fs/promises';
import { release } from 'node:os';
import { promisify } from 'node:util';
import { findV2Mount, readCgroupLayout } from './cgroup-layout.ts';
import { type Finding, missing, ok, warning } from './finding.ts';

const run = promisify(execFile);

/** First version with overlays over idmapped layers. */
const OLDEST_KERNEL = [5, 19] as const;
const NEWER_KERNEL = `Use a host with Linux ${OLDEST_KERNEL.join('.')} or newer.`;

export function checkRoot(uid = process.getuid?.()): Finding {
  return uid === 0
    ? ok('root', 'uid 0')
    : missing('root', `uid ${uid}`, 'Run this command as root, for example with `sudo npm start`.');
}

export function checkKernel(version = release()): Finding {
  return isAtLeast(version, OLDEST_KERNEL) ? ok('kernel', version) : missing('kernel', version, NEWER_KERNEL);
}

/** Checks for idmapped mounts, which shift the owners of a template's files for each sandbox. */
export function checkIdmappedMounts(version = release()): Finding {
  return isAtLeast(version, OLDEST_KERNEL)
    ? ok('idmapped mounts', 'with overlays')
    : missing('idmapped mounts', `Linux ${version} has none with overlays`, NEWER_KERNEL);
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
  try {
    await run('unshare', ['--user', '--map-root-user', 'true']);
    return ok('user namespaces', `up to ${limit}`);
  } catch {
    return missing(
      'user namespaces',
      'refused',
      'Allow them on this host: see the sysctls kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns, or the limits of the container that this runs in.',
    );
  }
}

export async function checkCgroups(): Promise<Finding> {
  const mountInfo = await readText('/proc/self/mountinfo');
  const v2Mount = findV2Mount(mountInfo);
  const layout = readCgroupLayout(mountInfo, v2Mount ? await readText(`${v2Mount}/cgroup.controllers`) : '');
  const needed = ['memory', 'cpu', 'pids'];
  const lacking = needed.filter((name) => layout.controllers[name] === undefined);
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
  return ok('cgroups', `${layout.kind}: ${needed.map((name) => `${name} ${layout.controllers[name]}`).join(', ')}`);
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

function isAtLeast(version: string, [major, minor]: readonly [number, number]): boolean {
  const [ownMajor = 0, ownMinor = 0] = version.split('.').map((part) => Number.parseInt(part, 10));
  return ownMajor > major || (ownMajor === major && ownMinor >= minor);
}

async function readText(file: string): Promise<string> {
  return readFile(file, 'utf8').catch(() => '');
}
