/** A server's webhooks on a database in memory, with a clock that tests move, and receivers on real sockets. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import type { EventPattern, OrgId, Preview, PreviewId, ProjectId, ResourceEvent } from '@cloche/contract';
import { FakeClock, SequentialIds } from '@cloche/testkit';
import { pino } from 'pino';
import { Registry } from 'prom-client';
import { EventFeed } from '../src/features/events/event-feed.ts';
import { Quotas } from '../src/features/quotas/quotas.ts';
import { Deliverer } from '../src/features/webhooks/deliverer.ts';
import { DeliveryRepository } from '../src/features/webhooks/delivery-repository.ts';
import { SendEvents } from '../src/features/webhooks/send-events.ts';
import { SendingSlots } from '../src/features/webhooks/sending-slots.ts';
import { TargetGuard } from '../src/features/webhooks/target-guard.ts';
import { WebhookMetrics } from '../src/features/webhooks/webhook-metrics.ts';
import { WebhookProgress } from '../src/features/webhooks/webhook-progress.ts';
import { WebhookRepository } from '../src/features/webhooks/webhook-repository.ts';
import { WebhookSecrets } from '../src/features/webhooks/webhook-secrets.ts';
import { type SenderOptions, WebhookSender } from '../src/features/webhooks/webhook-sender.ts';
import { WebhookService } from '../src/features/webhooks/webhook-service.ts';
import { ProjectAccess } from '../src/platform/access/project-access.ts';
import { ClaimedRows } from '../src/platform/db/claimed-rows.ts';
import type { Database } from '../src/platform/db/database.ts';
import { Transactions } from '../src/platform/db/transactions.ts';
import type { Credential } from '../src/platform/keys/credential.ts';
import { EventOutbox, type NewEvent } from '../src/platform/outbox/event-outbox.ts';
import { OrgRepository } from '../src/platform/tenancy/org-repository.ts';
import { SqlProjectRepository } from '../src/platform/tenancy/project-repository.ts';
import { callOf } from './call.ts';
import { openTestDatabase } from './test-database.ts';

export const CLAIM_MS = 60_000;

export interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly event: ResourceEvent;
}

export type Receiving = Awaited<ReturnType<typeof startReceiver>>;

/** Starts a receiver. `answer` answers a message; by default with 204. */
export async function startReceiver(
  answer: (response: ServerResponse, received: Received, request: IncomingMessage) => void = (response) =>
    response.writeHead(204).end(),
) {
  const received: Received[] = [];
  const state = { answer };
  const server = createServer(async (request, response) => {
    const body = (await buffer(request)).toString();
    const message = { headers: request.headers, body, event: JSON.parse(body) };
    received.push(message);
    state.answer(response, message, request);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hook?x=1`,
    port,
    received,
    seqs: () => received.map(({ event }) => event.seq),
    answerWith(next: typeof answer) {
      state.answer = next;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, 'close');
    },
  };
}

export type WebhookWorld = Awaited<ReturnType<typeof openWebhookWorld>>;

export async function openWebhookWorld(options: SenderOptions = {}) {
  const clock = new FakeClock(Date.now());
  const db = await openTestDatabase();
  const orgId = (await new OrgRepository(db, clock, new SequentialIds()).ensureFirst()).id;
  const projectId = await new SqlProjectRepository(db).getDefaultId(orgId);
  const transactions = new Transactions(db);
  const servers: Deliverer[] = [];
  const open = (serverId: string) => openServer({ db, clock, serverId, transactions, options });
  const first = await open('srv_1');
  const credential = { apiKeyId: 'key_1', orgId, scopes: new Set(), projectIds: undefined } as unknown as Credential;
  const call = callOf({ credential });
  return {
    ...first,
    db,
    clock,
    orgId,
    projectId,
    call,
    /** Starts a deliverer; `serverId` names its server. */
    async start(serverId = 'srv_1'): Promise<Deliverer> {
      const { deliverer } = serverId === 'srv_1' ? first : await open(serverId);
      await deliverer.start();
      servers.push(deliverer);
      return deliverer;
    },
    async create(url: string, events: EventPattern[] = ['*'], project?: ProjectId) {
      const body = { url, events, ...(project && { projectId: project }) };
      return first.service.create(call, body);
    },
    /** Appends `count` events, one a transaction. */
    async append(count: number, fields: { type?: 'preview.deleted'; orgId?: OrgId; projectId?: ProjectId } = {}) {
      for (let index = 0; index < count; index += 1) {
        const preview = { id: `prv_${index}` as PreviewId } as Preview;
        const event: NewEvent = { type: 'preview.created', orgId, projectId, data: { preview }, ...fields };
        await transactions.run((tx) => first.outbox.append(tx, event));
      }
    },
    /** Moves the clock, and has the deliverers look. */
    advance(ms: number) {
      clock.advance(ms);
      for (const server of servers) server.wake();
    },
    async [Symbol.asyncDispose]() {
      for (const server of servers) await server.stop();
      await db.destroy();
    },
  };
}

interface ServerParts {
  readonly db: Database;
  readonly clock: FakeClock;
  readonly serverId: string;
  readonly transactions: Transactions;
  readonly options: SenderOptions;
}

let made = 0;

async function openServer({ db, clock, serverId, transactions, options }: ServerParts) {
  // Different servers make different ids.
  made += 1;
  const prefix = made;
  const sequence = new SequentialIds();
  const ids = { next: <P extends string>(kind: P) => `${sequence.next(kind)}_${prefix}` as const };
  const log = pino({ level: 'silent' });
  const outbox = new EventOutbox(db, clock, ids);
  const guard = new TargetGuard({ allowHttp: true, allowCidrs: ['127.0.0.1/32'], denyCidrs: [] });
  const sender = new WebhookSender(guard, options);
  const secrets = await WebhookSecrets.open(db);
  const claims = new ClaimedRows(db, 'webhooks', CLAIM_MS);
  const deliveries = new DeliveryRepository(db, transactions, ids);
  const quotas = new Quotas({ db, transactions, outbox, clock, defaults: {} });
  const progress = new WebhookProgress({ db, transactions, outbox, claims, deliveries, clock, random: () => 0 });
  const registry = new Registry();
  const metrics = new WebhookMetrics({ metrics: registry, db, clock });
  const feed = new EventFeed(db, outbox);
  const sending = new SendEvents({ feed, progress, deliveries, secrets, sender, metrics, clock, log });
  const slots = new SendingSlots();
  const deliverer = new Deliverer({ progress, sending, claims, slots, outbox, serverId, ids, clock, log });
  const webhooks = new WebhookRepository(db, transactions);
  const projects = new ProjectAccess(new SqlProjectRepository(db));
  const wake = () => deliverer.wake();
  const service = new WebhookService({
    webhooks,
    deliveries,
    projects,
    quotas,
    secrets,
    guard,
    slots,
    sender,
    clock,
    ids,
    wake,
  });
  return { deliverer, service, webhooks, deliveries, progress, claims, secrets, outbox, registry };
}
