import { setTimeout } from 'node:timers/promises';
import { listProcesses, type ProcessEntry } from '../processes/process-tree.ts';

/** Processes that multiply while they are killed are met again in the next round. */
const KILL_WITHIN_MS = 3000;
const FIRST_ROUNDS = 3;
const PAUSE_MS = 2;

/** Sends `signal` to all that descends from `pid`, not to itself. */
export function signalDescendants(pid: number, signal: NodeJS.Signals): void {
  for (const entry of descendantsOf(pid)) send(entry.pid, signal);
}

/**
 * Kills all that descends from `pid`, a subreaper: whatever leaves its parent, its session or its group stays below it.
 * Resolves when `isGone` says so, which it does when nothing is left, or after a few seconds of trying.
 */
export async function killDescendants(pid: number, isGone: () => boolean): Promise<void> {
  const deadline = performance.now() + KILL_WITHIN_MS;
  for (let round = 0; !isGone() && performance.now() < deadline; round++) {
    const members = descendantsOf(pid);
    // A group is killed at one stroke, even while its processes multiply.
    for (const group of new Set(members.map((entry) => entry.group))) {
      if (members.some((entry) => entry.pid === group)) send(-group, 'SIGKILL');
    }
    for (const entry of members) send(entry.pid, 'SIGKILL');
    // The dead are reaped in a moment.
    await setTimeout(round < FIRST_ROUNDS ? 0 : PAUSE_MS);
  }
}

function descendantsOf(pid: number): ProcessEntry[] {
  const processes = listProcesses();
  const members = new Set([pid]);
  let before = 0;
  while (before !== members.size) {
    before = members.size;
    for (const entry of processes) if (members.has(entry.parent)) members.add(entry.pid);
  }
  members.delete(pid);
  return processes.filter((entry) => members.has(entry.pid) && entry.state !== 'Z');
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone in the meantime.
  }
}
