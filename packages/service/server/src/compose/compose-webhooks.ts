import type { Logger } from 'pino';
import type { Registry } from 'prom-client';
import { EventFeed } from '../features/events/event-feed.ts';
import type { Quotas } from '../features/quotas/quotas.ts';
import { Deliverer } from '../features/webhooks/deliverer.ts';
import { DeliveryRepository } from '../features/webhooks/delivery-repository.ts';
import { SendEvents } from '../features/webhooks/send-events.ts';
import { SendingSlots } from '../features/webhooks/sending-slots.ts';
import { TargetGuard, type TargetOptions } from '../features/webhooks/target-guard.ts';
import { WebhookMetrics } from '../features/webhooks/webhook-metrics.ts';
import { WebhookProgress } from '../features/webhooks/webhook-progress.ts';
import { WebhookRepository } from '../features/webhooks/webhook-repository.ts';
import { webhookRoutes } from '../features/webhooks/webhook-routes.ts';
import { WebhookSecrets } from '../features/webhooks/webhook-secrets.ts';
import { WebhookSender } from '../features/webhooks/webhook-sender.ts';
import { WebhookService } from '../features/webhooks/webhook-service.ts';
import type { ProjectAccess } from '../platform/access/project-access.ts';
import type { Clock } from '../platform/base/clock.ts';
import type { IdSource } from '../platform/base/id-source.ts';
import { Loop } from '../platform/base/loop.ts';
import { ClaimedRows } from '../platform/db/claimed-rows.ts';
import type { Database } from '../platform/db/database.ts';
import type { Transactions } from '../platform/db/transactions.ts';
import type { Route } from '../platform/http/route.ts';
import type { EventOutbox } from '../platform/outbox/event-outbox.ts';

/**
 * Minimum duration of a claim, so that it outlasts an attempt, which takes at most 15 seconds. Otherwise a claim lasts
 * as long as the lease of a server.
 */
const SHORTEST_CLAIM_MS = 20_000;
const FORGET_EVERY_MS = 3_600_000;

export interface WebhooksDeps {
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
  readonly db: Database;
  readonly transactions: Transactions;
  readonly outbox: EventOutbox;
  readonly projects: ProjectAccess;
  readonly quotas: Quotas;
  readonly metrics: Registry;
  readonly serverId: string;
  /** Time until other servers count this one as dead. */
  readonly leaseMs: number;
  readonly targets: TargetOptions;
  /** How long deliveries are kept: as long as events. */
  readonly retentionMs: number;
}

export interface Webhooks {
  readonly routes: Route[];
  start(): Promise<void>;
  stop(): Promise<void>;
}

/** Composes the webhooks. `start` begins to send. */
export async function composeWebhooks({
  targets,
  retentionMs,
  leaseMs,
  metrics: registry,
  ...shared
}: WebhooksDeps): Promise<Webhooks> {
  const { clock, log, db, transactions, outbox, ids } = shared;
  const guard = new TargetGuard(targets);
  const secrets = await WebhookSecrets.open(db);
  const sender = new WebhookSender(guard);
  const claims = new ClaimedRows(db, 'webhooks', Math.max(leaseMs, SHORTEST_CLAIM_MS));
  const deliveries = new DeliveryRepository(db, transactions, ids);
  const progress = new WebhookProgress({ ...shared, claims, deliveries, random: Math.random });
  const feed = new EventFeed(db, outbox);
  const metrics = new WebhookMetrics({ metrics: registry, db, clock });
  const sending = new SendEvents({ ...shared, metrics, feed, progress, deliveries, secrets, sender });
  const slots = new SendingSlots();
  const deliverer = new Deliverer({ ...shared, progress, sending, claims, slots });
  const webhooks = new WebhookRepository(db, transactions);
  const wake = () => deliverer.wake();
  const service = new WebhookService({ ...shared, webhooks, deliveries, secrets, guard, sender, slots, wake });
  const forget = async () => {
    await deliveries.forget(clock.now() - retentionMs);
    return FORGET_EVERY_MS;
  };
  let forgetting: Loop | undefined;
  return {
    routes: webhookRoutes(service, clock),
    async start() {
      forgetting = new Loop('forgotten webhook deliveries', forget, FORGET_EVERY_MS, log);
      await deliverer.start();
    },
    async stop() {
      await Promise.all([deliverer.stop(), forgetting?.stop()]);
    },
  };
}
