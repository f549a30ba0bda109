import type { PoolState } from './warm-pool.ts';

/** Returns the pool's metrics in Prometheus' text format. */
export function poolMetrics({ size, ready, hits, misses }: PoolState): string {
  return [
    ...metric('cloche_hostd_pool_size', 'gauge', 'Most ready instances; large ones count as several.', size),
    ...metric('cloche_hostd_pool_ready', 'gauge', 'Ready instances that no sandbox uses yet.', ready),
    ...metric('cloche_hostd_pool_hits_total', 'counter', 'Launches that used a ready instance.', hits),
    ...metric('cloche_hostd_pool_misses_total', 'counter', 'Launches that found no ready instance.', misses),
    '',
  ].join('\n');
}

function metric(name: string, type: 'gauge' | 'counter', help: string, value: number): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, `${name} ${value}`];
}
