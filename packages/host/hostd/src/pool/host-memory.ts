import { type MachineMemory, machineMemory } from '@cloche/layout';

/** Memory of the machine that launches ahead leave free: this share, and at least this many bytes. */
const KEPT_FREE_SHARE = 0.15;
const KEPT_FREE_BYTES = 512 * 1024 * 1024;

/** Returns whether there is memory to launch instances ahead; running sandboxes have priority. */
export function hasMemoryToSpare({ totalBytes, availableBytes }: MachineMemory = machineMemory()): boolean {
  return availableBytes > Math.max(KEPT_FREE_BYTES, totalBytes * KEPT_FREE_SHARE);
}
