import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { GVISOR_OWN_MEMORY_BYTES } from '@cloche/layout';
import type { LaunchSpec } from '@cloche/protocol';
import type { CgroupHierarchy } from './cgroup-hierarchies.ts';
import { AGENT_SHARE } from './divided-group.ts';

/** Group in which gVisor runs, below an instance's group. */
export const GVISOR_GROUP = 'gvisor';

const MEBIBYTE = 1024 * 1024;
/** Memory of gVisor's kernel for each guest process. */
const OWN_MEMORY_BYTES_PER_PROCESS = MEBIBYTE / 2;

/**
 * Widens the memory limit from the size that gVisor reports to its guest to the total that gVisor and its guest use.
 */
export function widenGvisorMemoryLimit(
  { mountPoint }: CgroupHierarchy,
  group: string,
  { memoryBytes, pids }: LaunchSpec['resources'],
): void {
  const bytes = memoryBytes + AGENT_SHARE.memoryBytes + GVISOR_OWN_MEMORY_BYTES + pids * OWN_MEMORY_BYTES_PER_PROCESS;
  // Memory with swap first, because its limit may not be below that of memory alone.
  for (const name of ['memory.memsw.limit_in_bytes', 'memory.limit_in_bytes', 'memory.max']) {
    const file = join(mountPoint, group, GVISOR_GROUP, name);
    if (existsSync(file)) writeFileSync(file, String(bytes));
  }
}
