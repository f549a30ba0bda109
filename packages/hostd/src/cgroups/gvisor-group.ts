import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { LaunchSpec } from '@cloche/protocol';
import type { CgroupHierarchy } from './cgroup-hierarchies.ts';
import { AGENT_SHARE } from './divided-group.ts';

/** Where gVisor runs, below an instance's group. */
export const GVISOR_GROUP = 'gvisor';

const MEBIBYTE = 1024 * 1024;
/**
 * What gVisor's kernel takes for itself and for the processes of its guest, and what is taken between two looks of
 * the agent that ends what takes too much (`memory-guard.ts`): the host would end the whole sandbox.
 */
const OWN_MEMORY_BYTES = 192 * MEBIBYTE;
const OWN_MEMORY_A_PROCESS = MEBIBYTE / 2;

/** Widens the bound of memory, which gVisor was started with and tells its guest of, to what it takes in all. */
export function makeRoomForGvisor(
  { place }: CgroupHierarchy,
  group: string,
  { memoryBytes, pids }: LaunchSpec['resources'],
): void {
  const bytes = memoryBytes + AGENT_SHARE.memoryBytes + OWN_MEMORY_BYTES + pids * OWN_MEMORY_A_PROCESS;
  // Memory with swap may not be bounded below memory alone, so that comes first.
  for (const name of ['memory.memsw.limit_in_bytes', 'memory.limit_in_bytes', 'memory.max']) {
    const file = join(place, group, GVISOR_GROUP, name);
    if (existsSync(file)) writeFileSync(file, String(bytes));
  }
}
