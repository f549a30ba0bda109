import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';

/** Environment variable of kernels. Everything that a kernel starts inherits it, unless it clears its environment. */
export const KERNEL_MARK = 'CLOCHE_KERNEL';

const KILL_WITHIN_MS = 5000;
/** Shortest pause between rounds. Processes that are ending need the CPU more than the search for them. */
const PAUSE_MS = 5;
const PAUSE_PER_MEMBER_MS = 1;
const MAX_PAUSE_MS = 200;

export interface ProcessTree {
  /** The root process; also the id of its session. */
  pid: number;
  mark: string;
  /** Owner of the marked processes. Processes of other users with the mark are not killed. */
  uid: number;
  gid: number;
}

export interface ProcessEntry {
  pid: number;
  parent: number;
  group: number;
  session: number;
  state: string;
  startTicks: number;
  residentPages: number;
}

/**
 * Kills a process and its descendants: children, processes that share a session or group with one of them, and
 * processes with the mark. Resolves when they have ended. A daemon that has left its session and cleared its
 * environment survives until the sandbox ends.
 */
export async function killTree(tree: ProcessTree): Promise<void> {
  const sessions = new Set([tree.pid]);
  const killed = new Set<string>();
  const deadline = performance.now() + KILL_WITHIN_MS;
  for (;;) {
    const members = membersOf(sessions);
    if (members.length === 0 || performance.now() > deadline) break;
    // Finds processes that were forked while their parent was being killed.
    const others = members.filter((entry) => !killed.has(nameOf(entry)));
    for (const entry of others) killed.add(nameOf(entry));
    // One signal to a group reaches all its processes at once, also while they fork.
    kill([...new Set(others.map((entry) => -entry.group))]);
    kill(others.map((entry) => entry.pid));
    await setTimeout(others.length > 0 ? 0 : Math.min(PAUSE_MS + members.length * PAUSE_PER_MEMBER_MS, MAX_PAUSE_MS));
  }
  // Only the same user may read the environment with the mark, so a process of that user searches for it.
  const marked = await findMarked(tree).catch(() => []);
  kill(marked.filter((pid) => ownerOf(pid) === tree.uid));
}

/** Returns the members of `sessions` and their descendants. Adds the sessions that it finds to `sessions`. */
export function membersOf(sessions: Set<number>): ProcessEntry[] {
  const processes = listProcesses();
  const members = new Set<number>(sessions);
  let before = -1;
  while (before !== members.size) {
    before = members.size;
    for (const entry of processes) {
      const related = members.has(entry.parent) || sessions.has(entry.session) || members.has(entry.group);
      // Session 0 lies outside the container.
      if (!related || entry.session === 0) continue;
      members.add(entry.pid);
      sessions.add(entry.session);
    }
  }
  return processes.filter((entry) => members.has(entry.pid) && entry.state !== 'Z');
}

export function listProcesses(): ProcessEntry[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => readProcess(Number(name)) ?? []);
}

function readProcess(pid: number): ProcessEntry | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The name in parentheses is chosen by the process and can contain anything.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [state = '', parent, group, session] = fields;
    const startTicks = Number(fields[19]);
    const residentPages = Number(fields[21]);
    const numbers = {
      parent: Number(parent),
      group: Number(group),
      session: Number(session),
      startTicks,
      residentPages,
    };
    return { pid, state, ...numbers };
  } catch {
    return undefined;
  }
}

/** Returns when a process started, in ticks; undefined if it has ended, also if it is still a zombie. */
export function findStart(pid: number): number | undefined {
  const entry = readProcess(pid);
  return entry === undefined || entry.state === 'Z' || entry.state === 'X' ? undefined : entry.startTicks;
}

function findMarked({ mark, uid, gid }: ProcessTree): Promise<number[]> {
  const script = 'grep -lsaF -e "$0" /proc/[0-9]*/environ';
  return new Promise((resolve) => {
    execFile(
      '/bin/sh',
      ['-c', script, `${KERNEL_MARK}=${mark}`],
      { uid, gid, env: {}, timeout: 2000 },
      (_error, found) => resolve([...found.matchAll(/^\/proc\/(\d+)\/environ$/gm)].map((match) => Number(match[1]))),
    );
  });
}

/** Identifies a process. The pid alone can be reused. */
function nameOf({ pid, startTicks }: ProcessEntry): string {
  return `${pid}/${startTicks}`;
}

export function ownerOf(pid: number): number | undefined {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid;
}

export function kill(pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // The process has ended meanwhile.
    }
  }
}
