import { readFileSync } from 'node:fs';
import { pause } from '@cloche/node-support';

/** Share of one processor below which a process counts as idle. On a slow machine a starting one gets 7 % at least. */
const LEAST_SHARE = 0.05;
/** Windows after which a process counts as idle, whatever it does. */
const MOST_WINDOWS = 20;
/** Clock ticks a second in `/proc`; the same on all architectures of Linux. */
const TICKS_A_SECOND = 100;

/**
 * Resolves when a process has hardly computed during a window, or when the signal aborts. A start takes seconds of
 * processor time, which can be minutes on a small or busy machine.
 */
export async function untilIdle(pid: number | undefined, windowMs: number, signal: AbortSignal): Promise<void> {
  let before = processorMs(pid);
  for (let window = 0; window < MOST_WINDOWS && !signal.aborted; window += 1) {
    await pause(windowMs, signal);
    const now = processorMs(pid);
    if (now - before < windowMs * LEAST_SHARE) return;
    before = now;
  }
}

/** Returns the processor time that a process has used; 0 for one that has ended. */
function processorMs(pid: number | undefined): number {
  try {
    // The name of the program, in parentheses, may contain spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\)\s/s, '')
      .split(' ');
    const [user = 0, system = 0] = fields.slice(11, 13).map(Number);
    return ((user + system) * 1000) / TICKS_A_SECOND;
  } catch {
    return 0;
  }
}
