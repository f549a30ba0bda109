import { readFileSync } from 'node:fs';

/** Clock ticks a second in `/proc`; the same on all architectures of Linux. */
const TICKS_A_SECOND = 100;

/** Returns the processor time that a process and its ended children have used, in milliseconds; 0 after its end. */
export function processorMs(pid: number | undefined): number {
  try {
    // The name of the program, in parentheses, may contain spaces.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\)\s/s, '')
      .split(' ');
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    return (ticks * 1000) / TICKS_A_SECOND;
  } catch {
    return 0;
  }
}
