/** Controllers that the limits of a sandbox need. */
export const NEEDED_CONTROLLERS = ['memory', 'cpu', 'pids'];

/**
 * A mounted cgroup hierarchy. The options of its super block include the controllers of v1.
 *
 * @typedef {{ mountPoint: string, type: 'cgroup' | 'cgroup2', options: readonly string[] }} CgroupMount
 */

/**
 * @typedef {{
 *   kind: 'v1' | 'v2' | 'hybrid' | 'none',
 *   controllers: Record<string, 'v1' | 'v2'>,
 * }} CgroupLayout the hierarchy version of each controller
 */

/**
 * Returns which cgroup hierarchies a host has.
 *
 * @param {string} mountInfo content of `/proc/self/mountinfo`
 * @param {string} v2Controllers content of `cgroup.controllers` at the top of the v2 hierarchy; empty without one
 * @returns {CgroupLayout}
 */
export function readCgroupLayout(mountInfo, v2Controllers) {
  const mounts = cgroupMounts(mountInfo);
  const hasV2 = mounts.some(({ type }) => type === 'cgroup2');
  const v1 = mounts.filter(({ type }) => type === 'cgroup').flatMap(({ options }) => options);
  const v1Controllers = v1.filter((name) => !['rw', 'ro'].includes(name) && !/^(name|xattr|release_agent)/.test(name));
  /** @type {Record<string, 'v1' | 'v2'>} */
  const controllers = {};
  for (const name of v2Controllers.split(/\s+/).filter(Boolean)) controllers[name] = 'v2';
  for (const name of v1Controllers) controllers[name] = 'v1';
  const kind = hasV2 ? (v1Controllers.length > 0 ? 'hybrid' : 'v2') : v1Controllers.length > 0 ? 'v1' : 'none';
  return { kind, controllers };
}

/**
 * Returns the mount point of the v2 hierarchy.
 *
 * @param {string} mountInfo content of `/proc/self/mountinfo`
 * @returns {string | undefined}
 */
export function findV2Mount(mountInfo) {
  const [first = { mountPoint: undefined }] = cgroupMounts(mountInfo).filter(({ type }) => type === 'cgroup2');
  return first.mountPoint;
}

/**
 * Returns every mounted hierarchy.
 *
 * @param {string} mountInfo content of `/proc/self/mountinfo`
 * @returns {CgroupMount[]}
 */
export function cgroupMounts(mountInfo) {
  return mountInfo.split('\n').flatMap((line) => {
    const [mount = '', superBlock = ''] = line.split(' - ');
    const [type, , options = ''] = superBlock.split(' ');
    if (type !== 'cgroup' && type !== 'cgroup2') return [];
    return [{ mountPoint: mount.split(' ')[4] || '', type, options: options.split(',') }];
  });
}
