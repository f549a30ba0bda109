import { execFile } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { listProcesses } from '../processes/process-tree.ts';
import type { Candidate, MemoryReadings } from './memory-guard.ts';

const KIBIBYTE = 1024;
const PAGE_BYTES = 4096;

/** Whose programs run in the sandbox. */
export interface User {
  readonly uid: number;
  readonly gid: number;
}

/** The numbers of the kernel that this runs on. */
export function readingsOfMachine(user: User): Omit<MemoryReadings, 'release'> {
  return {
    usedBytes: () => kibibytesOf(readFileSync('/proc/meminfo', 'utf8'), 'AnonPages') * KIBIBYTE,
    candidates: groupsOfProcesses,
    kill(group) {
      try {
        process.kill(-group, 'SIGKILL');
      } catch {
        // It has ended by itself.
      }
    },
    isAlive(group) {
      try {
        return process.kill(-group, 0);
      } catch {
        return false;
      }
    },
    releaseShared(signal) {
      const { promise, resolve } = Promise.withResolvers<boolean>();
      // Its owner alone may take it away. What it fails at stays, and the next process is killed for it.
      execFile('/usr/bin/perl', ['-e', RELEASE_SHARED], { ...user, env: {}, signal }, (_, held) =>
        resolve(held !== ''),
      );
      return promise;
    },
  };
}

/**
 * Takes away the segments of System V that nobody has attached, of all that were made (SHM_INFO, IPC_STAT, IPC_RMID);
 * gVisor keeps them for good, and lists them nowhere.
 */
const RELEASE_SHARED = `
my $info = "\\0" x 256;
shmctl(0, 14, unpack("J", pack("p", $info))) // exit;
for my $id (0 .. unpack("i", $info)) {
  my $segment;
  shmctl($id, 2, $segment) // next;
  unpack("x88 Q", $segment) == 0 ? shmctl($id, 0, 0) : print "held";
}`;

/**
 * None of what looks after the sandbox, which is root's. One of a group speaks for it: there may be hundreds in it, and
 * little time.
 */
function groupsOfProcesses(): Candidate[] {
  const groups = new Map<number, { spokesman: number; residentBytes: number }>();
  for (const { pid, group, state, residentPages } of listProcesses()) {
    if (state === 'Z') continue;
    const { spokesman = pid, residentBytes = 0 } = groups.get(group) ?? {};
    groups.set(group, { spokesman, residentBytes: residentBytes + residentPages * PAGE_BYTES });
  }
  return [...groups].flatMap(([group, { spokesman, residentBytes }]) => {
    const adjustment = adjustmentOf(spokesman);
    return adjustment === undefined ? [] : [{ group, residentBytes, adjustment }];
  });
}

/** Undefined of a process of root's, and of one that has ended. */
function adjustmentOf(pid: number): number | undefined {
  try {
    if (statSync(`/proc/${pid}`).uid === 0) return undefined;
    return Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'));
  } catch {
    return undefined;
  }
}

function kibibytesOf(text: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1] ?? 0);
}
