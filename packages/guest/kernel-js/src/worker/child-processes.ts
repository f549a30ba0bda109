import { readdirSync, readFileSync } from 'node:fs';

/** Unit of a process's start time in `/proc`. */
const TICKS_PER_SECOND = 100;

/** Signals this process's descendants that started at `startedAt` (seconds, as `os.uptime()`) or later. */
export function endProcessesStartedSince(startedAt: number, signal: NodeJS.Signals): void {
  for (const pid of descendantsOf(process.pid)) {
    if ((startTime(pid) ?? 0) >= Math.floor(startedAt * TICKS_PER_SECOND))
      tryOrUndefined(() => process.kill(pid, signal));
  }
}

function descendantsOf(pid: number): number[] {
  const threads = tryOrUndefined(() => readdirSync(`/proc/${pid}/task`)) ?? [];
  const children = threads.flatMap((thread) => {
    const list = tryOrUndefined(() => readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8')) ?? '';
    return list.split(' ').filter(Boolean).map(Number);
  });
  return children.flatMap((child) => [child, ...descendantsOf(child)]);
}

/** Returns the start time in ticks since the machine (or the time namespace) started. */
function startTime(pid: number): number | undefined {
  const stat = tryOrUndefined(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  // The command's name is in parentheses and can contain anything. The start time is the 20th field after it.
  const field = stat?.slice(stat.lastIndexOf(')') + 2).split(' ')[19];
  return field === undefined ? undefined : Number(field);
}

/** Returns undefined if `action` throws, because a process can end while it is examined. */
function tryOrUndefined<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch {
    return undefined;
  }
}
