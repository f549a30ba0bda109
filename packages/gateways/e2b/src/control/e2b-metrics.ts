import type { SandboxMetrics } from '@cloche/contract';

const SECOND_MS = 1000;
/** Seconds since the epoch. */
const TIME = { type: 'string', pattern: '^\\d{1,12}$', maxLength: 12 };

export interface MetricsQuery {
  readonly start?: string;
  readonly end?: string;
}

export const METRICS_SCHEMA = { querystring: { type: 'object', properties: { start: TIME, end: TIME } } };

/** Returns the measurements of a sandbox in an interval as E2B's clients expect them, oldest first. */
export function metricsOf(
  { samples, now, limits }: SandboxMetrics,
  { start = '0', end = String(Number.MAX_SAFE_INTEGER) }: MetricsQuery,
) {
  const measured = [...samples, now].map(({ at, cpu, memoryBytes, diskBytes = 0 }) => ({
    timestamp: at,
    timestampUnix: Math.floor(Date.parse(at) / SECOND_MS),
    cpuCount: Math.max(1, Math.round(limits.cpu)),
    cpuUsedPct: (100 * cpu) / limits.cpu,
    memUsed: memoryBytes,
    memTotal: limits.memoryBytes,
    memCache: 0,
    diskUsed: diskBytes,
    diskTotal: limits.diskBytes,
  }));
  return measured.filter(({ timestampUnix }) => timestampUnix >= Number(start) && timestampUnix <= Number(end));
}
