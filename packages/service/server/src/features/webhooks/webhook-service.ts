import type { Webhook } from '@cloche/contract';
import {
  type CreateWebhookBody,
  type DeliveryId,
  type EventId,
  ID_PREFIXES,
  LIMITS,
  TEST_EVENT_TYPE,
  type UpdateWebhookBody,
  type WebhookDelivery,
} from '@cloche/contract';
import type { ProjectAccess } from '../../platform/access/project-access.ts';
import { AppError, invalidRequest, notFound } from '../../platform/base/app-error.ts';
import { type Clock, timestamp } from '../../platform/base/clock.ts';
import type { IdSource } from '../../platform/base/id-source.ts';
import type { Call } from '../../platform/call/call.ts';
import { type List, newestFirst } from '../../platform/db/list.ts';
import type { ListPart } from '../../platform/db/list-part.ts';
import { mayUseProject } from '../../platform/keys/credential.ts';
import type { Quotas } from '../quotas/quotas.ts';
import { type DeliveryRow, isAccepted, toDelivery } from './delivery.ts';
import type { DeliveryRepository } from './delivery-repository.ts';
import { send } from './send-events.ts';
import type { SendingSlots } from './sending-slots.ts';
import type { TargetGuard } from './target-guard.ts';
import { toWebhook, type WebhookRecord } from './webhook.ts';
import type { WebhookRepository } from './webhook-repository.ts';
import type { WebhookSecrets } from './webhook-secrets.ts';
import type { WebhookSender } from './webhook-sender.ts';

/** An attempt to send takes 15 seconds at most; most take far less. */
const TEST_AGAIN_SECONDS = 5;

export interface WebhookServiceDeps {
  readonly webhooks: WebhookRepository;
  readonly deliveries: DeliveryRepository;
  readonly projects: ProjectAccess;
  readonly quotas: Quotas;
  readonly secrets: WebhookSecrets;
  readonly guard: TargetGuard;
  readonly sender: WebhookSender;
  readonly slots: SendingSlots;
  readonly clock: Clock;
  readonly ids: IdSource;
  /** Looks for something to send. */
  readonly wake: () => void;
}

export interface WebhookWithSecret {
  readonly webhook: WebhookRecord;
  /** The secret itself, which is not shown again. */
  readonly secret: string;
}

/**
 * Creates, shows, changes, tests and deletes webhooks. A key that is bound to projects sees only the webhooks of these.
 */
export class WebhookService {
  readonly #deps: WebhookServiceDeps;

  constructor(deps: WebhookServiceDeps) {
    this.#deps = deps;
  }

  /**
   * Creates one webhook per idempotency record.
   *
   * @throws AppError `invalid_request` for a URL that is not permitted, `forbidden` for events of projects that the key
   * may not use, `not_found` for an unknown or deleted project, `quota_exceeded`.
   */
  async create({ credential, idempotency, audit }: Call, body: CreateWebhookBody): Promise<WebhookWithSecret> {
    const { webhooks, projects, quotas, secrets, ids, clock, wake } = this.#deps;
    if (body.projectId !== undefined) await projects.getOpen(credential, body.projectId);
    else if (credential.projectIds) throw wholeOrganization();
    this.#checkUrl(body.url);
    const id = ids.next(ID_PREFIXES.webhook);
    const secret = secrets.make();
    const { url, events, projectId, description } = body;
    const webhook = {
      id,
      orgId: credential.orgId,
      projectId,
      url,
      events: [...new Set(events)],
      description,
      secret: secrets.seal(secret, id),
      idempotencyRecordId: idempotency?.recordId,
    };
    const inserted = await quotas.admit(
      { orgId: credential.orgId, ...(projectId && { projectId }) },
      async (tx, requireRoom) => {
        const room = () => requireRoom({ webhooks: 1 });
        const options = { limit: LIMITS.webhooksPerOrganization, now: clock.now(), requireRoom: room };
        const insertion = await webhooks.insert(webhook, options, tx);
        if (insertion.status === 'inserted') await audit?.append(tx, webhook);
        return insertion;
      },
    );
    if (inserted.status === 'full') throw tooMany(inserted.used);
    wake();
    return { webhook: inserted.row, secret: secrets.open(inserted.row) };
  }

  /** Opens the list of the webhooks that the key may see, newest first. */
  async list({ credential }: Call, projectId: string | undefined): Promise<List<WebhookRecord, Webhook>> {
    const projectIds = await this.#deps.projects.listed(credential, projectId);
    const { webhooks, clock } = this.#deps;
    const read = (part: ListPart) => webhooks.list(credential.orgId, projectIds, part);
    return newestFirst(read, (record) => toWebhook(record, clock.now()));
  }

  /** Returns a webhook, also a deleted one. @throws AppError `not_found`, `forbidden` */
  async get({ credential }: Call, id: string): Promise<WebhookRecord> {
    const webhook = await this.#deps.webhooks.find(credential.orgId, id);
    if (!webhook) throw notFound('webhook', id);
    const { projectId } = webhook;
    if (projectId === undefined ? !credential.projectIds : mayUseProject(credential, projectId)) return webhook;
    throw new AppError('forbidden', `This API key may not use the project of the webhook "${id}"; use a key that may.`);
  }

  /** Sets the given fields. @throws AppError `not_found`, also for a deleted webhook; `forbidden`, `invalid_request` */
  async update(call: Call, id: string, body: UpdateWebhookBody): Promise<WebhookRecord> {
    if (body.url !== undefined) this.#checkUrl(body.url);
    const { webhooks, clock, wake } = this.#deps;
    const webhook = await this.#getLive(call, id);
    const { url, enabled } = body;
    const events = body.events && [...new Set(body.events)];
    const updated = await webhooks.update(call, webhook.id, { url, events, enabled }, clock.now());
    if (!updated) throw deleted(id);
    wake();
    return updated;
  }

  /** Idempotent. @throws AppError `not_found`, `forbidden` */
  async delete(call: Call, id: string): Promise<WebhookRecord> {
    const webhook = await this.get(call, id);
    await this.#deps.webhooks.delete(call, webhook, this.#deps.clock.now());
    return this.get(call, id);
  }

  /**
   * Replaces the secret. The one before still signs for a day. @throws AppError `not_found`, `forbidden`; `unavailable`
   * if another attempt has claimed the request
   */
  async rotateSecret(call: Call, id: string): Promise<WebhookWithSecret> {
    const { webhooks, secrets, clock } = this.#deps;
    const webhook = await this.#getLive(call, id);
    const secret = secrets.make();
    const until = clock.now() + LIMITS.webhookSecretGraceMs;
    const rotated = await webhooks.rotate(call, webhook.id, secrets.seal(secret, webhook.id), until);
    if (!rotated) throw deleted(id);
    return { webhook: rotated, secret };
  }

  /**
   * Sends a test once and returns the result. @throws AppError `not_found`, `forbidden`; `rate_limited` while as many
   * messages of the organization are under way as may be
   */
  async test(call: Call, id: string): Promise<WebhookDelivery> {
    const { deliveries, sender, slots, clock, ids } = this.#deps;
    const webhook = await this.#getLive(call, id);
    using slot = slots.take(webhook.orgId);
    if (!slot) throw tooManyUnderWay();
    await call.audit?.announce(webhook);
    const { orgId, projectId } = webhook;
    const at = clock.now();
    const data = { webhook: toWebhook(webhook, at) };
    const eventId: EventId = ids.next(ID_PREFIXES.event);
    const event = {
      id: eventId,
      type: TEST_EVENT_TYPE,
      at: timestamp(at),
      orgId,
      ...(projectId && { projectId }),
      data,
    };
    await using receiver = sender.open(webhook.url);
    const result = await send(this.#deps, receiver, webhook, { event, signal: call.signal });
    const sent = { id: eventId, type: TEST_EVENT_TYPE, seq: undefined };
    const outcome = { status: isAccepted(result) ? ('delivered' as const) : ('failed' as const) };
    return toDelivery(await deliveries.record(webhook.id, sent, { result, outcome, at }), at);
  }

  /** Returns deliveries in order, and whether there are more. @throws AppError `not_found`, `forbidden` */
  async listDeliveries(
    call: Call,
    id: string,
    { afterSeq, limit }: { afterSeq: number; limit: number },
  ): Promise<{ data: WebhookDelivery[]; hasMore: boolean }> {
    const webhook = await this.get(call, id);
    const rows = await this.#deps.deliveries.list(webhook.id, afterSeq, limit + 1);
    const data = rows.slice(0, limit).map((row) => toDelivery(row, webhook.nextAttemptAt));
    return { data, hasMore: rows.length > limit };
  }

  /** Retries a delivery at once. @throws AppError `not_found`, `forbidden`, `conflict` */
  async resend(call: Call, id: string, deliveryId: DeliveryId): Promise<WebhookDelivery> {
    const { deliveries, clock, wake } = this.#deps;
    const webhook = await this.#getLive(call, id);
    const delivery = await deliveries.find(webhook.id, deliveryId);
    if (!delivery) throw notFound('delivery', deliveryId);
    if (!webhook.enabled) throw new AppError('conflict', `The webhook "${id}" is not enabled; enable it first.`);
    await this.#requireEvent(webhook, delivery);
    const now = clock.now();
    const sending = await deliveries.resend(call, webhook, delivery, now);
    wake();
    return toDelivery(sending, now);
  }

  async #requireEvent(webhook: WebhookRecord, { id, event_seq: seq }: DeliveryRow): Promise<void> {
    if (seq === null) throw new AppError('conflict', `The delivery "${id}" is a test; test the webhook again instead.`);
    if (await this.#deps.deliveries.findEvent(webhook, seq)) return;
    throw new AppError('conflict', `The event of the delivery "${id}" is no longer kept, so it cannot be sent again.`);
  }

  async #getLive(call: Call, id: string): Promise<WebhookRecord> {
    const webhook = await this.get(call, id);
    if (webhook.deletedAt !== undefined) throw deleted(id);
    return webhook;
  }

  #checkUrl(url: string): void {
    const problem = this.#deps.guard.problemWith(url);
    if (problem !== undefined) throw invalidRequest({ path: 'body.url', message: problem });
  }
}

function wholeOrganization(): AppError {
  return new AppError(
    'forbidden',
    'This API key is bound to projects; set body.projectId to one of them, or use a key of the whole organization.',
  );
}

function tooManyUnderWay(): AppError {
  const message = 'Too many messages to webhooks are under way; test the webhook again when some have ended.';
  return new AppError('rate_limited', message, { retryAfterSeconds: TEST_AGAIN_SECONDS });
}

function deleted(id: string): AppError {
  return new AppError('not_found', `The webhook "${id}" is deleted; create another one.`);
}

function tooMany(used: number): AppError {
  const limit = LIMITS.webhooksPerOrganization;
  const message = `The organization has ${used} webhooks, and its limit is ${limit}; delete some first.`;
  return new AppError('quota_exceeded', message, { details: { quota: 'webhooks', limit, used } });
}
