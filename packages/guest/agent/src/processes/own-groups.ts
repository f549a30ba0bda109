import { readFileSync } from 'node:fs';
import { normalize } from 'node:path';

const CGROUP_ROOT = '/sys/fs/cgroup';

/** The sandbox's folders in one hierarchy of control groups: that of the agent (`own`), and its parent (`whole`). */
export interface OwnGroup {
  version: 1 | 2;
  own: string;
  whole: string;
}

/**
 * Returns one group of each hierarchy that may count for `controller`. On a hybrid host, the v2 hierarchy may not count
 * for it.
 */
export function findOwnGroups(controller: 'memory' | 'pids'): OwnGroup[] {
  const groups = readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n');
  return groups.flatMap((line) => {
    const [, controllers, own = '/'] = line.split(':');
    if (controllers !== '' && controllers !== controller) return [];
    const root = controllers === '' ? CGROUP_ROOT : `${CGROUP_ROOT}/${controller}`;
    const place = (path: string) => normalize(`${root}${path}`);
    return [{ version: controllers === '' ? 2 : 1, own: place(own), whole: place(own.replace(/\/agent$/, '')) }];
  });
}
