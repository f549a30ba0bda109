import { readFileSync } from 'node:fs';

/** A process and when it started: a number alone is given to another one sooner or later. */
export interface ProcessIdentity {
  pid: number;
  /** Clock ticks since boot. */
  startTicks: number;
  bootId: string;
}

export const BOOT_ID = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();

/** The identity of a process that lives now (a zombie does not). */
export function identifyProcess(pid: number): ProcessIdentity | undefined {
  const stat = readStat(pid);
  return stat && { pid, startTicks: stat.startTicks, bootId: BOOT_ID };
}

/** Whether that very process still lives. */
export function isProcessAlive({ pid, startTicks, bootId }: ProcessIdentity): boolean {
  return bootId === BOOT_ID && readStat(pid)?.startTicks === startTicks;
}

function readStat(pid: number): { startTicks: number } | undefined {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  } catch {
    return undefined;
  }
  // The name, in parentheses, may hold spaces and parentheses itself.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [state] = fields;
  if (state === 'Z' || state === 'X') return undefined;
  return { startTicks: Number(fields[19]) };
}
