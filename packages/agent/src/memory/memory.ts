import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findOwnGroups } from '../processes/own-groups.ts';
import { MemoryGuard } from './memory-guard.ts';
import { readingsOfMachine, type User } from './memory-readings.ts';

/** Higher goes first when memory runs out. Children inherit it. */
export function setOomScore(pid: number, score: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(score));
  } catch {
    // It is gone already, or this kernel allows no change: then the kernel's own choice stands.
  }
}

/** In place of a kernel that kills nothing for memory, after `release` has given back what it can. Until `signal` aborts. */
export function guardMemory(limitBytes: number, user: User, release: () => boolean, signal: AbortSignal): void {
  guard = new MemoryGuard(limitBytes, { ...readingsOfMachine(user), release });
  void guard.watch(signal);
}

let guard: MemoryGuard | undefined;

/** How many processes of this sandbox were killed for memory; of those that the kernel kills, 0 where that cannot be read. */
export function countOomKills(): number {
  counterPaths ??= findCounterPaths();
  return counterPaths.reduce((count, path) => count + readCounter(path), guard?.kills ?? 0);
}

/** The same as it was a moment ago at the earliest: reading it for each of many short runs would cost more than they. */
export function countOomKillsLately(): number {
  const now = performance.now();
  if (now - lately.at > LATELY_MS) lately = { at: now, count: countOomKills() };
  return lately.count;
}

const LATELY_MS = 50;
let lately = { at: Number.NEGATIVE_INFINITY, count: 0 };

let counterPaths: readonly string[] | undefined;

/**
 * Where the kernel counts them. A group of v2 counts for those below it; in v1 each counts for itself, so the one of the
 * kernels is looked into beside the one above it and the agent's own.
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
