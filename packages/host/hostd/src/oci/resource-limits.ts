import { readFileSync } from 'node:fs';

/** Limits by the name that `prlimit` uses. */
type LimitName = 'nofile' | 'core' | 'sigpending' | 'msgqueue' | 'memlock' | 'nice' | 'rtprio';

interface KnownLimit {
  name: LimitName;
  /** Number in `setrlimit`; the same on x86-64 and arm64. */
  number: number;
  /** Label in `/proc/self/limits`. */
  label: string;
  wanted: number;
}

export interface ResourceLimit extends KnownLimit {
  /** Soft and hard limit. */
  value: number;
}

const KNOWN_LIMITS: readonly KnownLimit[] = [
  { name: 'nofile', number: 7, label: 'Max open files', wanted: 65_536 },
  { name: 'core', number: 4, label: 'Max core file size', wanted: 0 },
  // POSIX timers count as signals. This many for each user of a sandbox; programs use some for each thread.
  { name: 'sigpending', number: 11, label: 'Max pending signals', wanted: 4096 },
  // Bytes of POSIX message queues: nine queues of the default size, the kernel's own default.
  { name: 'msgqueue', number: 12, label: 'Max msgqueue size', wanted: 819_200 },
  // Bytes; the kernel's own default.
  { name: 'memlock', number: 8, label: 'Max locked memory', wanted: 8 * 1024 * 1024 },
  // No process may raise its priority above those of other sandboxes.
  { name: 'nice', number: 13, label: 'Max nice priority', wanted: 0 },
  { name: 'rtprio', number: 14, label: 'Max realtime priority', wanted: 0 },
];

/**
 * Returns the resource limits of each process in a sandbox. No limit is above hostd's own, because not every host lets
 * its root raise limits.
 */
export function resourceLimits(own = readFileSync('/proc/self/limits', 'utf8')): ResourceLimit[] {
  return KNOWN_LIMITS.map((limit) => {
    const hard = new RegExp(`^${limit.label} +\\S+ +(\\d+)`, 'm').exec(own)?.[1];
    return { ...limit, value: hard === undefined ? limit.wanted : Math.min(limit.wanted, Number(hard)) };
  });
}
