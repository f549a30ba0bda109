import { readFileSync, writeFileSync } from 'node:fs';

/** Higher goes first when memory runs out. Children inherit it. */
export function setOomScore(pid: number, score: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(score));
  } catch {
    // It is gone already, or this kernel allows no change: then the kernel's own choice stands.
  }
}

/** How many processes of this cgroup the kernel has killed for memory; 0 where that cannot be read. */
export function countOomKills(): number {
  counterPaths ??= findCounterPaths();
  for (const path of counterPaths) {
    const count = readCounter(path);
    if (count !== undefined) return count;
  }
  return 0;
}

let counterPaths: readonly string[] | undefined;

/** cgroup v1 and v2. In a container the hierarchy's root is the container's own group. */
function findCounterPaths(): string[] {
  const groups = readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n');
  return groups.flatMap((line) => {
    const [, controllers, path = '/'] = line.split(':');
    if (controllers === '') return [`/sys/fs/cgroup${path}/memory.events`, '/sys/fs/cgroup/memory.events'];
    if (controllers !== 'memory') return [];
    return [`/sys/fs/cgroup/memory${path}/memory.oom_control`, '/sys/fs/cgroup/memory/memory.oom_control'];
  });
}

function readCounter(path: string): number | undefined {
  try {
    const count = /^oom_kill (\d+)$/m.exec(readFileSync(path, 'utf8'))?.[1];
    return count === undefined ? undefined : Number(count);
  } catch {
    return undefined;
  }
}
