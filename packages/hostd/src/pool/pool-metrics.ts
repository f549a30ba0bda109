import type { PoolState } from './warm-pool.ts';

/** In Prometheus' text form. */
export function poolMetrics({ size, ready, hits, misses }: PoolState): string {
  return [
    ...metric('cloche_hostd_pool_size', 'gauge', 'Instances to have ready, of all kinds together.', size),
    ...metric('cloche_hostd_pool_ready', 'gauge', 'Instances that wait for a sandbox.', ready),
    ...metric('cloche_hostd_pool_hits_total', 'counter', 'Launches that found an instance ready.', hits),
    ...metric('cloche_hostd_pool_misses_total', 'counter', 'Launches that found none.', misses),
    '',
  ].join('\n');
}

function metric(name: string, type: 'gauge' | 'counter', help: string, value: number): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`, `${name} ${value}`];
}
