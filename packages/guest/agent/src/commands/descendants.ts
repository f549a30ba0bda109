import { setTimeout } from 'node:timers/promises';
import { listProcesses, type ProcessEntry } from '../processes/process-tree.ts';

/** Longest time spent on repeated rounds of killing. A round misses processes that were forked while it ran. */
const KILL_WITHIN_MS = 3000;
const FIRST_ROUNDS = 3;
const PAUSE_MS = 2;

/** Sends `signal` to all descendants of `pid`, but not to `pid` itself. */
export function signalDescendants(pid: number, signal: NodeJS.Signals): void {
  for (const entry of descendantsOf(pid)) send(entry.pid, signal);
}

/**
 * Kills all descendants of `pid`, which must be a subreaper: a descendant that leaves its parent, its session or its
 * group then stays below `pid`. Resolves when `isGone` returns true, or after `KILL_WITHIN_MS`.
 */
export async function killDescendants(pid: number, isGone: () => boolean): Promise<void> {
  const deadline = performance.now() + KILL_WITHIN_MS;
  for (let round = 0; !isGone() && performance.now() < deadline; round++) {
    const members = descendantsOf(pid);
    // One signal to a group reaches all its processes at once, also while they fork.
    for (const group of new Set(members.map((entry) => entry.group))) {
      if (members.some((entry) => entry.pid === group)) send(-group, 'SIGKILL');
    }
    for (const entry of members) send(entry.pid, 'SIGKILL');
    // Gives the supervisor time to reap the dead processes.
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
    // The process has ended meanwhile.
  }
}
