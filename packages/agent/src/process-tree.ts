import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';

/** In the environment of a kernel and, unless they clear it, of all that it starts. */
export const KERNEL_MARK = 'CLOCHE_KERNEL';

/** A process that forks while it is being killed is met again in the next round. */
const MAX_ROUNDS = 8;

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
 * what carries its mark. A daemon that has left its session and cleared its environment escapes until the sandbox ends.
 */
export async function killTree(tree: ProcessTree): Promise<void> {
  const sessions = new Set([tree.pid]);
  for (let round = 0; round < MAX_ROUNDS; round++) {
    const members = membersOf(sessions);
    // A group is killed at one stroke, even while its processes multiply.
    kill([...new Set(members.map((entry) => -entry.group))]);
    kill(members.map((entry) => entry.pid));
    if (members.length === 0) break;
    await setImmediate();
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

function ownerOf(pid: number): number | undefined {
  return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid;
}

function kill(pids: number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // Gone in the meantime.
    }
  }
}
