import type { SandboxMetrics } from '@cloche/contract';

/** Returns the measurements of a sandbox as E2B's clients expect them, oldest first. */
export function metricsOf({ samples, now, limits }: SandboxMetrics) {
  return [...samples, now].map(({ at, cpu, memoryBytes, diskBytes = 0 }) => ({
    timestamp: at,
    timestampUnix: Math.floor(Date.parse(at) / 1000),
    cpuCount: Math.max(1, Math.round(limits.cpu)),
    cpuUsedPct: (100 * cpu) / limits.cpu,
    memUsed: memoryBytes,
    memTotal: limits.memoryBytes,
    memCache: 0,
    diskUsed: diskBytes,
    diskTotal: limits.diskBytes,
  }));
}
