/** Clients that use sandboxes, whose events are sent to webhooks. */
import { operations } from '@cloche/contract';
import { Registry } from 'prom-client';
import { EventFeed } from '../../../src/features/events/event-feed.ts';
import { Deliverer } from '../../../src/features/webhooks/deliverer.ts';
import type { SendResult } from '../../../src/features/webhooks/delivery.ts';
import { DeliveryRepository } from '../../../src/features/webhooks/delivery-repository.ts';
import { SendEvents } from '../../../src/features/webhooks/send-events.ts';
import { SendingSlots } from '../../../src/features/webhooks/sending-slots.ts';
import { TargetGuard } from '../../../src/features/webhooks/target-guard.ts';
import { WebhookMetrics } from '../../../src/features/webhooks/webhook-metrics.ts';
import { WebhookProgress } from '../../../src/features/webhooks/webhook-progress.ts';
import { WebhookRepository } from '../../../src/features/webhooks/webhook-repository.ts';
import { webhookRoutes } from '../../../src/features/webhooks/webhook-routes.ts';
import { WebhookSecrets } from '../../../src/features/webhooks/webhook-secrets.ts';
import type { WebhookSender } from '../../../src/features/webhooks/webhook-sender.ts';
import { WebhookService } from '../../../src/features/webhooks/webhook-service.ts';
import { ClaimedRows } from '../../../src/platform/db/claimed-rows.ts';
import type { Peer } from '../faults.ts';
import type { ServerParts } from '../server-parts.ts';
import { type WebhookInvariants, watchWebhooks } from '../webhook-invariants.ts';
import type { Workload, WorkloadWorld } from '../workload.ts';
import { useSandboxes } from './code-runs.ts';

const CLAIM_MS = 60_000;
/** Time in which a receiver refuses some of its messages. */
const REFUSES_MS = 20_000;
const NO_ANSWER: SendResult = { kind: 'failed', error: 'no answer: the connection failed' };

export function openWebhooks(world: WorkloadWorld): Workload {
  const invariants = watchWebhooks(world);
  return {
    committed: invariants.committed,
    unrest: invariants.unrest,
    compose: (parts, peer) => composeDelivery(parts, senderFor(peer, world, invariants)),
    async work(clients) {
      const body = { url: `http://127.0.0.1/${clients.nextKey()}`, events: ['*'] };
      await clients.insist({ operation: operations.createWebhook, body, key: clients.nextKey() });
      await useSandboxes(clients);
    },
  };
}

async function composeDelivery(parts: ServerParts, sender: WebhookSender) {
  const { db, transactions, outbox, ids, clock } = parts;
  const secrets = await WebhookSecrets.open(db);
  const claims = new ClaimedRows(db, 'webhooks', CLAIM_MS);
  const deliveries = new DeliveryRepository(db, transactions, ids);
  const progress = new WebhookProgress({ ...parts, claims, deliveries, random: Math.random });
  const metrics = new WebhookMetrics({ metrics: new Registry(), db, clock });
  const sending = new SendEvents({
    ...{ progress, deliveries, secrets, sender, metrics, clock, log: parts.log },
    feed: new EventFeed(db, outbox),
  });
  const slots = new SendingSlots();
  const deliverer = new Deliverer({ ...parts, progress, sending, claims, slots });
  const guard = new TargetGuard({ allowHttp: true, allowCidrs: ['127.0.0.1/32'], denyCidrs: [] });
  const webhooks = new WebhookRepository(db, transactions);
  const wake = () => deliverer.wake();
  const service = new WebhookService({ ...parts, webhooks, deliveries, secrets, guard, sender, slots, wake });
  return { routes: webhookRoutes(service, clock), start: () => deliverer.start() };
}

/** Returns the sender of a server. Receivers refuse some messages at first, and the answers to others are lost. */
function senderFor(peer: Peer, { seams, time }: WorkloadWorld, { received }: WebhookInvariants): WebhookSender {
  const accept = (url: string, body: string): SendResult => {
    if (time.elapsed() < REFUSES_MS && time.random.chance(0.1)) return { kind: 'answered', status: 500, body: '' };
    received(url, JSON.parse(body));
    return { kind: 'answered', status: 204, body: '' };
  };
  const open = (url: string) => ({
    async post(_headers: unknown, body: string, signal: AbortSignal): Promise<SendResult> {
      const lost = () => new Error('the connection broke');
      try {
        return await seams.call(peer, 'receiver', `post ${url}`, () => accept(url, body), { lost, signal });
      } catch {
        signal.throwIfAborted();
        return NO_ANSWER;
      }
    },
    async [Symbol.asyncDispose]() {},
  });
  // Sound: nothing else of a sender is used.
  return { open } as unknown as WebhookSender;
}
