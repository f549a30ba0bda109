import type { FrozenBytes } from './frozen-instances.ts';

const NAME = 'cloche_hostd_paused_bytes';

/** Returns the memory of frozen instances in Prometheus' text format. */
export function memoryMetrics({ resident, compressed }: FrozenBytes): string {
  return [
    `# HELP ${NAME} Memory that paused sandboxes hold: as it was, and compressed in zram.`,
    `# TYPE ${NAME} gauge`,
    `${NAME}{kind="resident"} ${resident}`,
    `${NAME}{kind="compressed"} ${compressed}`,
    '',
  ].join('\n');
}
