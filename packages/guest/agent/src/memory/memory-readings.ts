import { execFile } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { AgentConfig } from '../config.ts';
import { listProcesses } from '../processes/process-tree.ts';
import type { Candidate, MemoryReadings } from './memory-guard.ts';

const KIBIBYTE = 1024;
const PAGE_BYTES = 4096;

/** The user whose programs run in the sandbox. */
export interface User {
  readonly uid: number;
  readonly gid: number;
}

export type ReadingsConfig = User & Pick<AgentConfig, 'guestDir'>;

/** Returns the readings of the kernel that the agent runs on. */
export function readingsOfMachine(config: ReadingsConfig): Omit<MemoryReadings, 'release'> {
  const { uid, gid, guestDir } = config;
  return {
    usedBytes: () => kibibytesOf(readFileSync('/proc/meminfo', 'utf8'), 'AnonPages') * KIBIBYTE,
    candidates: groupsOfProcesses,
    kill(group) {
      try {
        process.kill(-group, 'SIGKILL');
      } catch {
        // The group has ended already.
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
      // Run as the user, because only the owner may remove a segment. A segment that stays counts as used.
      execFile(join(guestDir, 'bin/release-shared'), { uid, gid, env: {}, signal }, (_, held) => resolve(held !== ''));
      return promise;
    },
  };
}

/**
 * Returns the groups of the user's processes. Skips root's, which maintain the sandbox. Reads the score of one process
 * per group only, because a group can have hundreds and time is short.
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

/** Returns `oom_score_adj`, or undefined for a process of root and for one that has ended. */
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
