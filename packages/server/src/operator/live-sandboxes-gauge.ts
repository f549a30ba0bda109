import { Gauge, type Registry } from 'prom-client';
import type { Database } from '../db/database.ts';

/** Statuses as they are stored: whether one is in use is the runs' own metric. */
const LIVE_STATUSES = ['creating', 'starting', 'ready', 'expiring'] as const;

/** Counted in the database when somebody looks, so that it is right whichever server changed them. */
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
        .where('status', 'in', LIVE_STATUSES)
        .groupBy('status')
        .execute();
      for (const status of LIVE_STATUSES) this.set({ status }, 0);
      for (const { status, count } of rows) this.set({ status }, Number(count));
    },
  });
}
