import { readFileSync } from 'node:fs';

/** Clock ticks a second in `/proc`; the same on all architectures of Linux. */
const TICKS_A_SECOND = 100;

/** Returns the processor time that a process has used, in milliseconds; 0 for one that has ended. */
export function processorMs(pid: number | undefined): number {
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
