import { cpus } from 'node:os';

/**
 * Starts to measure. The returned function returns the share of the machine's processor time that processes have used
 * since then, from 0 to 1.
 */
export function measureBusyShare(): () => number {
  const before = processorTimes();
  return () => {
    const { busy, all } = processorTimes();
    return (busy - before.busy) / Math.max(1, all - before.all);
  };
}

/** Milliseconds of all processors since the start of the machine. */
function processorTimes(): { busy: number; all: number } {
  const times = cpus().map(({ times: { idle, user, nice, sys, irq } }) => ({ idle, busy: user + nice + sys + irq }));
  const busy = times.reduce((sum, each) => sum + each.busy, 0);
  return { busy, all: times.reduce((sum, each) => sum + each.idle, busy) };
}
