import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '../../platform/base/clock.ts';
import type { Database } from '../../platform/db/database.ts';
import { isAccepted, type SendResult } from './delivery.ts';

export interface WebhookMetricsDeps {
  readonly metrics: Registry;
  readonly db: Database;
  readonly clock: Clock;
}

/** Metrics of webhooks for operators: what this server sent, and how long events wait in the database. */
export class WebhookMetrics {
  readonly #deliveries: Counter<'outcome'>;

  constructor({ metrics, db, clock }: WebhookMetricsDeps) {
    this.#deliveries = new Counter({
      name: 'cloche_webhook_deliveries_total',
      help: 'Attempts to deliver an event to a webhook: delivered, refused (an answer other than 2xx) or unanswered.',
      labelNames: ['outcome'],
      registers: [metrics],
    });
    for (const outcome of ['delivered', 'refused', 'unanswered']) this.#deliveries.inc({ outcome }, 0);
    new Gauge({
      name: 'cloche_webhook_queue_age_seconds',
      help: 'Age of the oldest event that an enabled webhook is yet to receive in its order; 0 if there is no such event.',
      registers: [metrics],
      async collect() {
        // While the database is away, the other metrics are served without this one.
        const oldest = await findOldestWaiting(db).catch(() => 'unknown' as const);
        if (oldest === 'unknown') return this.reset();
        this.set(oldest === undefined ? 0 : Math.max(0, clock.now() - oldest) / 1000);
      },
    });
  }

  count(result: SendResult): void {
    this.#deliveries.inc({ outcome: outcomeOf(result) });
  }
}

function outcomeOf(result: SendResult): string {
  if (isAccepted(result)) return 'delivered';
  return result.kind === 'answered' ? 'refused' : 'unanswered';
}

/** Returns the time of the oldest event after the cursor of any enabled webhook. */
async function findOldestWaiting(db: Database): Promise<number | undefined> {
  const waiting = db
    .selectFrom('webhooks')
    .where('enabled', '=', 1)
    .select(({ selectFrom }) =>
      selectFrom('events')
        .whereRef('events.org_id', '=', 'webhooks.org_id')
        .whereRef('events.seq', '>', 'webhooks.cursor_seq')
        .orderBy('events.seq')
        .limit(1)
        .select('events.at')
        .as('at'),
    );
  const query = db.selectFrom(waiting.as('waiting')).select(({ fn }) => fn.min<number | null>('at').as('oldest'));
  const { oldest } = await query.executeTakeFirstOrThrow();
  return oldest === null ? undefined : Number(oldest);
}
