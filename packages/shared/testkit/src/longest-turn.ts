import { setImmediate } from 'node:timers/promises';

/**
 * Returns how long `work` kept other work of this thread waiting at most, in milliseconds of the thread's processor
 * time: those of the longest turn of the event loop. Other processes do not change the figure. Compare it with that of
 * honest work in the same run, never with a fixed time.
 */
export async function longestTurn(work: () => Promise<unknown>): Promise<number> {
  let isDone = false;
  let longest = 0;
  const watch = async () => {
    for (let before = threadMs(); !isDone; ) {
      await setImmediate();
      const now = threadMs();
      longest = Math.max(longest, now - before);
      before = now;
    }
  };
  const watching = watch();
  try {
    await work();
  } finally {
    isDone = true;
    await watching;
  }
  return longest;
}

function threadMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
