import { Gauge, type Registry } from 'prom-client';
import type { Database } from '../../platform/db/database.ts';
import {
  type PauseState,
  type RecordState,
  STATUS_FACTS,
  sandboxThat,
  stateOf,
  statesThat,
} from '../sandbox-status/status-facts.ts';

/**
 * Registers a gauge of live sandboxes. It counts them in the database on each reading, so it is right whichever server
 * changed them. The metrics of runs tell which sandboxes are in use.
 */
export function registerLiveSandboxesGauge(registry: Registry, db: Database): void {
  new Gauge({
    name: 'cloche_sandboxes',
    help: 'Sandboxes that are not destroyed or failed, by status, and by the place that keeps a paused one.',
    labelNames: ['status', 'paused'],
    registers: [registry],
    async collect() {
      const rows = await db
        .selectFrom('sandboxes')
        .select(({ fn }) => ['status', 'pause_state', fn.countAll<number>().as('count')])
        .where(sandboxThat('keepsProject'))
        .groupBy(['status', 'pause_state'])
        .execute()
        .catch(() => undefined);
      // While the database is away, the other metrics are served without this one.
      if (!rows) return this.reset();
      const counts = new Map(statesThat('keepsProject').map((state) => [labelsOf(state), 0]));
      for (const { status, pause_state, count } of rows) {
        const labels = labelsOf(stateOf({ status, pauseState: (pause_state as PauseState | null) ?? undefined }));
        counts.set(labels, (counts.get(labels) ?? 0) + Number(count));
      }
      for (const [labels, count] of counts) this.set(labels, count);
    },
  });
}

const AS_STATUS: Partial<Record<RecordState, Record<string, string>>> = {
  paused: { status: 'idle', paused: 'memory' },
  parked: { status: 'idle', paused: 'disk' },
};

/** Returns the labels of a state, the same object each time. A sandbox on its way into or out of a pause is `ready`. */
function labelsOf(state: RecordState): Record<string, string> {
  const status = STATUS_FACTS[state].isMoving ? 'ready' : state;
  AS_STATUS[status] ??= { status };
  return AS_STATUS[status];
}
