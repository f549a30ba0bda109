import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { setTimeout } from 'node:timers/promises';

/** In the environment of a kernel and, unless they clear it, of all that it starts. */
export const KERNEL_MARK = 'CLOCHE_KERNEL';

const KILL_WITHIN_MS = 5000;
/** Hundreds that are dying need the processor more than whoever looks at them. */
const PAUSE_MS = 5;
const PAUSE_PER_MEMBER_MS = 1;
const MAX_PAUSE_MS = 200;

export interface ProcessTree {
  /** The root; also its session. */
  pid: number;
  mark: string;
  /** Whose processes these are: no other is touched. */
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
 * Kills a process with everything that descends from it: children, what shares a session or group with one of them, and
 * what carries its mark. Resolves when they are gone. A daemon that has left its session and cleared its environment
 * escapes until the sandbox ends.
 */
export async function killTree(tree: ProcessTree): Promise<void> {
  const sessions = new Set([tree.pid]);
  const killed = new Set<string>();
  const deadline = performance.now() + KILL_WITHIN_MS;
  for (;;) {
    const members = membersOf(sessions);
    if (members.length === 0 || performance.now() > deadline) break;
    // A process that forked while it was being killed is met here.
    const others = members.filter((entry) => !killed.has(nameOf(entry)));
    for (const entry of others) killed.add(nameOf(entry));
    // A group is killed at one stroke, even while its processes multiply.
    kill([...new Set(others.map((entry) => -entry.group))]);
    kill(others.map((entry) => entry.pid));
    await setTimeout(others.length > 0 ? 0 : Math.min(PAUSE_MS + members.length * PAUSE_PER_MEMBER_MS, MAX_PAUSE_MS));
  }
  // The mark can be read by the same user alone, so a process of that user looks for it.
  const marked = await findMarked(tree).catch(() => []);
  kill(marked.filter((pid) => ownerOf(pid) === tree.uid));
}

/** Adds the sessions that it meets to `sessions`. */
function membersOf(sessions: Set<number>): ProcessEntry[] {
  const processes = listProcesses();
  const members = new Set<number>(sessions);
  let before = -1;
  while (before !== members.size) {
    before = members.size;
    for (const entry of processes) {
      const related = members.has(entry.parent) || sessions.has(entry.session) || members.has(entry.group);
      // A session of 0 is one of outside this container, and none of ours.
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
    // The name in parentheses is the process's own choice and may hold anything.
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

/** When that process started, in ticks; undefined when it is gone or nobody has waited for it yet. */
export function findStart(pid: number): number | undefined {
  const entry = readProcess(pid);
  return entry === undefined || entry.state === 'Z' || entry.state === 'X' ? undefined : entry.startTicks;
}

/** The session of that process; 0 when it is gone. */
export function findSession(pid: number): number {
  return readProcess(pid)?.session ?? 0;
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

/** A number may be another process's later. */
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
      // Gone in the meantime.
    }
  }
}
