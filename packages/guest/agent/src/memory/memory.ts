import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { reportFailure } from '@cloche/node-support';
import { findOwnGroups } from '../processes/own-groups.ts';
import { MemoryGuard } from './memory-guard.ts';
import { type ReadingsConfig, readingsOfMachine } from './memory-readings.ts';

/** Sets `oom_score_adj`. The process with the higher score is killed first. Children inherit the score. */
export function setOomScore(pid: number, score: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(score));
  } catch {
    // The process has ended, or this kernel forbids the change. The kernel's default then applies.
  }
}

/**
 * Enforces the memory limit where the kernel does not, until `signal` aborts. `release` frees memory that only improves
 * speed; it is called before a process is killed.
 */
export function guardMemory(
  limitBytes: number,
  config: ReadingsConfig,
  release: () => boolean,
  signal: AbortSignal,
): void {
  guard = new MemoryGuard(limitBytes, { ...readingsOfMachine(config), release });
  guard.watch(signal).catch(reportFailure);
}

let guard: MemoryGuard | undefined;

/** Returns how many processes were killed for memory. The kernel's kills count as 0 where its counter is unreadable. */
export function countOomKills(): number {
  counterPaths ??= findCounterPaths();
  return counterPaths.reduce((count, path) => count + readCounter(path), guard?.kills ?? 0);
}

/**
 * Whether the host may have killed a process for memory, which the agent cannot count where a guard enforces the limit.
 */
export function hostMayHaveKilled(): boolean {
  return guard?.hostMayHaveKilled() ?? false;
}

/**
 * Like `countOomKills`, but up to `LATELY_MS` old. Reading it for each of many short runs would cost more than the
 * runs.
 */
export function countOomKillsLately(): number {
  const now = performance.now();
  if (now - lately.at > LATELY_MS) lately = { at: now, count: countOomKills() };
  return lately.count;
}

const LATELY_MS = 50;
let lately = { at: Number.NEGATIVE_INFINITY, count: 0 };

let counterPaths: readonly string[] | undefined;

/**
 * Returns the files in which the kernel counts these kills. In v2 a group's counter includes the groups below it. In
 * v1 it does not, so the groups of the agent, of the sandbox and of the kernels are all read.
 */
function findCounterPaths(): string[] {
  const places = findOwnGroups('memory').flatMap(({ version, own, whole }) =>
    version === 2
      ? [join(whole, 'memory.events')]
      : [own, whole, join(whole, 'kernels')].map((folder) => join(folder, 'memory.oom_control')),
  );
  return [...new Set(places)];
}

function readCounter(path: string): number {
  try {
    return Number(/^oom_kill (\d+)$/m.exec(readFileSync(path, 'utf8'))?.[1] ?? 0);
  } catch {
    return 0;
  }
}
