import { readFileSync } from 'node:fs';
import { normalize } from 'node:path';

const CGROUP_ROOT = '/sys/fs/cgroup';

/** Folders of this sandbox in a hierarchy of control groups: that of the agent, and the one above it, which is divided. */
export interface OwnGroup {
  version: 1 | 2;
  own: string;
  whole: string;
}

/** Of every hierarchy that may count what `controller` does; on a hybrid host the one of v2 does not always. */
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
