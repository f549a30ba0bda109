import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const CGROUP_ROOT = '/sys/fs/cgroup';
/** Mount point of the v2 hierarchy on a hybrid host. */
export const UNIFIED = join(CGROUP_ROOT, 'unified');

/** A mounted control group hierarchy, identified by its mount point. */
export interface CgroupHierarchy {
  readonly mountPoint: string;
  readonly version: 1 | 2;
  /** Controllers that a v1 hierarchy was mounted with; empty on v2. */
  readonly controllers: readonly string[];
}

/** Returns every hierarchy that is mounted on the host. Throws when there is none. */
export function findHierarchies(mounts = readFileSync('/proc/self/mounts', 'utf8')): CgroupHierarchy[] {
  const found = new Map<string, CgroupHierarchy>();
  for (const line of mounts.split('\n')) {
    const [, mountPoint = '', type, options = ''] = line.split(' ');
    if (!mountPoint.startsWith(CGROUP_ROOT)) continue;
    if (type === 'cgroup') found.set(mountPoint, { mountPoint, version: 1, controllers: options.split(',') });
    if (type === 'cgroup2') found.set(mountPoint, { mountPoint, version: 2, controllers: [] });
  }
  if (found.size === 0) throw new Error(`no cgroup hierarchy is mounted at ${CGROUP_ROOT}`);
  return [...found.values()];
}
