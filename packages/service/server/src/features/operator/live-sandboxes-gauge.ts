import { Gauge, type Registry } from 'prom-client';
import type { Database } from '../../platform/db/database.ts';
import { sandboxThat, statusesThat } from '../sandbox-status/status-facts.ts';

/**
 * Registers a gauge of live sandboxes. It counts them in the database on each reading, so it is right whichever server
 * changed them. The metrics of runs tell which sandboxes are in use.
 */
export function registerLiveSandboxesGauge(registry: Registry, db: Database): void {
  new Gauge({
    name: 'cloche_sandboxes',
    help: 'Sandboxes that are not destroyed or failed, by status.',
    labelNames: ['status'],
    registers: [registry],
    async collect() {
      const rows = await db
        .selectFrom('sandboxes')
        .select(({ fn }) => ['status', fn.countAll<number>().as('count')])
        .where(sandboxThat('countsLive'))
        .groupBy('status')
        .execute()
        .catch(() => undefined);
      // While the database is away, the other metrics are served without this one.
      if (!rows) return this.reset();
      for (const status of statusesThat('countsLive')) this.set({ status }, 0);
      for (const { status, count } of rows) this.set({ status }, Number(count));
    },
  });
}
