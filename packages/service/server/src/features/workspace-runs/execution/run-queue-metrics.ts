import { Gauge, type Registry } from 'prom-client';
import type { Clock } from '../../../platform/base/clock.ts';
import type { Database } from '../../../platform/db/database.ts';

export interface RunQueueMetricsDeps {
  readonly metrics: Registry;
  readonly db: Database;
  readonly clock: Clock;
}

/**
 * Adds metrics of the queue of workspace runs, for operators. They are read from the database when they are collected.
 */
export function addRunQueueMetrics({ metrics, db, clock }: RunQueueMetricsDeps): void {
  new Gauge({
    name: 'cloche_workspace_runs',
    help: 'Workspace runs that are queued, and that are running, of all servers.',
    labelNames: ['status'],
    registers: [metrics],
    async collect() {
      for (const status of ['queued', 'running'] as const) {
        const runs = db.selectFrom('workspace_runs').where('status', '=', status);
        const { count } = await runs.select(({ fn }) => fn.countAll().as('count')).executeTakeFirstOrThrow();
        this.set({ status }, Number(count));
      }
    },
  });
  new Gauge({
    name: 'cloche_workspace_run_queue_age_seconds',
    help: 'Time for which the workspace run that waits longest has been queued; 0 if none is.',
    registers: [metrics],
    async collect() {
      const queued = db.selectFrom('workspace_runs').where('status', '=', 'queued');
      const { first } = await queued
        .select(({ fn }) => fn.min<number | null>('queued_at').as('first'))
        .executeTakeFirstOrThrow();
      this.set(first === null ? 0 : Math.max(0, clock.now() - Number(first)) / 1000);
    },
  });
}
