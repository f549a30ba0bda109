import type { Emptying } from '../cgroups/swap-groups.ts';
import { runSilently } from '../linux/run-program.ts';

/** Longest time for one group. A large one on a slow machine is not finished by then, and stays as it is. */
const LONGEST_MS = 120_000;
/** Writes to the file while nothing else wants the processor. */
const LAST_IN_LINE = ['-n', '19', 'sh', '-c', 'echo "$2" > "$1"', 'sh'];

/**
 * Moves the memory of a group to swap in another process, and resolves with the processor time that it took. Stops when
 * the signal aborts. A group that is gone, or whose memory does not fit, is no failure.
 *
 * @param emptying see `SwapGroups.emptying`
 */
export async function reclaimGroup({ file, text }: Emptying, signal: AbortSignal): Promise<number> {
  const args = [...LAST_IN_LINE, file, text];
  const { processorMs } = await runSilently({ file: 'nice', args, timeoutMs: LONGEST_MS, signal });
  return processorMs;
}
