export type CgroupLayout = {
  kind: 'v1' | 'v2' | 'hybrid' | 'none';
  /** Hierarchy version of each controller. */
  controllers: Record<string, 'v1' | 'v2'>;
};

/**
 * Returns which cgroup hierarchies a host has.
 *
 * @param mountInfo content of `/proc/self/mountinfo`
 * @param v2Controllers content of `cgroup.controllers` at the top of the v2 hierarchy; empty without one
 */
export function readCgroupLayout(mountInfo: string, v2Controllers: string): CgroupLayout {
  const mounts = cgroupMounts(mountInfo);
  const hasV2 = mounts.some(({ type }) => type === 'cgroup2');
  const v1 = mounts.filter(({ type }) => type === 'cgroup').flatMap(({ options }) => options);
  const v1Controllers = v1.filter((name) => !['rw', 'ro'].includes(name) && !/^(name|xattr|release_agent)/.test(name));
  return {
    kind: hasV2 ? (v1Controllers.length > 0 ? 'hybrid' : 'v2') : v1Controllers.length > 0 ? 'v1' : 'none',
    controllers: Object.fromEntries([
      ...v2Controllers
        .split(/\s+/)
        .filter(Boolean)
        .map((name) => [name, 'v2']),
      ...v1Controllers.map((name) => [name, 'v1']),
    ]),
  };
}

/** Returns the mount point of the v2 hierarchy. */
export function findV2Mount(mountInfo: string): string | undefined {
  return cgroupMounts(mountInfo).find(({ type }) => type === 'cgroup2')?.mountPoint;
}

/** A mounted cgroup hierarchy. The options of its super block include the controllers of v1. */
export interface CgroupMount {
  mountPoint: string;
  type: 'cgroup' | 'cgroup2';
  options: readonly string[];
}

/**
 * Returns every mounted hierarchy.
 * @param mountInfo content of `/proc/self/mountinfo`
 */
export function cgroupMounts(mountInfo: string): CgroupMount[] {
  return mountInfo.split('\n').flatMap((line) => {
    const [mount = '', superBlock = ''] = line.split(' - ');
    const [type, , options = ''] = superBlock.split(' ');
    if (type !== 'cgroup' && type !== 'cgroup2') return [];
    return [{ mountPoint: mount.split(' ')[4] ?? '', type, options: options.split(',') }];
  });
}
