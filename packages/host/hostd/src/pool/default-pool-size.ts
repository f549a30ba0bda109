import { machineMemory } from '@cloche/layout';

const SHARE_OF_MEMORY = 1 / 16;
const MAX_SIZE = 64;

/**
 * Returns the size of a pool that holds at most a sixteenth of the host's memory.
 * @param instanceBytes memory of one waiting instance
 */
export function defaultPoolSize(instanceBytes: number, hostBytes = machineMemory().totalBytes): number {
  return Math.min(MAX_SIZE, Math.floor((hostBytes * SHARE_OF_MEMORY) / instanceBytes));
}
