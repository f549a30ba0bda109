import { type EventId, eventTypesOf, type ResourceEvent } from '@cloche/contract';
import type { Logger } from 'pino';
import type { Clock } from '../../platform/base/clock.ts';
import type { EventFeed } from '../events/event-feed.ts';
import { type DeliveryRow, isAccepted, type SendResult } from './delivery.ts';
import type { DeliveryRepository } from './delivery-repository.ts';
import type { WebhookRecord } from './webhook.ts';
import type { WebhookMetrics } from './webhook-metrics.ts';
import type { Attempted, Claimed, WebhookProgress } from './webhook-progress.ts';
import type { WebhookSecrets } from './webhook-secrets.ts';
import type { Receiver, WebhookSender } from './webhook-sender.ts';

/** Time after which a webhook yields to others, even if it has more to send. */
const TURN_MS = 30_000;
const PAGE = 100;
/** Most independent retries in one turn. */
const RETRIED = 10;
/**
 * Number of failures of an event from which the next event is sent too, to find out whether the receiver refuses every
 * event or only this one. This failure comes 35 seconds after the first one, so short outages are over by then.
 */
const PROBE_FROM = 3;

export interface SendEventsDeps {
  readonly feed: EventFeed;
  readonly progress: WebhookProgress;
  readonly deliveries: DeliveryRepository;
  readonly secrets: WebhookSecrets;
  readonly sender: WebhookSender;
  readonly metrics: WebhookMetrics;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Sends what is due to one claimed webhook. */
export class SendEvents {
  readonly #deps: SendEventsDeps;

  constructor(deps: SendEventsDeps) {
    this.#deps = deps;
  }

  /**
   * Sends until nothing is due, a delivery fails, the claim is gone or the turn is over. Rejects if `signal` aborts.
   */
  async run(webhook: WebhookRecord, claim: string, signal: AbortSignal): Promise<void> {
    await using receiver = this.#deps.sender.open(webhook.url);
    const turn = new Turn(this.#deps, receiver, signal);
    if (!(await turn.retryDue({ webhook, claim }))) return;
    if (webhook.attempts > 0 && webhook.nextAttemptAt > this.#deps.clock.now()) return;
    await turn.followEvents({ webhook, claim });
  }
}

class Turn {
  readonly #deps: SendEventsDeps;
  readonly #receiver: Receiver;
  readonly #signal: AbortSignal;
  readonly #endsAt: number;

  constructor(deps: SendEventsDeps, receiver: Receiver, signal: AbortSignal) {
    this.#deps = deps;
    this.#receiver = receiver;
    this.#signal = signal;
    this.#endsAt = deps.clock.now() + TURN_MS;
  }

  /** Returns whether the turn goes on. */
  async retryDue(claimed: Claimed): Promise<boolean> {
    const { deliveries, clock } = this.#deps;
    for (const delivery of await deliveries.listDue(claimed.webhook.id, clock.now(), RETRIED)) {
      if (this.#isOver || !(await this.#retry(claimed, delivery))?.enabled) return false;
    }
    return true;
  }

  async followEvents({ webhook, claim }: Claimed): Promise<void> {
    const { feed, progress } = this.#deps;
    const filter = {
      orgId: webhook.orgId,
      projectIds: webhook.projectId && [webhook.projectId],
      types: eventTypesOf(webhook.events),
    };
    for (let current = await this.#passDeleted({ webhook, claim }); current; ) {
      const page = await feed.read(filter, current.cursorSeq, PAGE);
      for (const [index, event] of page.data.entries()) {
        if (this.#isOver) return;
        current = await this.#sendNext({ webhook: current, claim }, event, page.data[index + 1]);
        if (current?.cursorSeq !== event.seq) return;
      }
      if (page.nextSeq > current.cursorSeq) current = await progress.skip({ webhook: current, claim }, page.nextSeq);
      if (!page.hasMore) return;
    }
  }

  /** A webhook that was disabled or failed for longer than events are kept does not get those in between. */
  async #passDeleted({ webhook, claim }: Claimed): Promise<WebhookRecord | undefined> {
    const { feed, progress, log } = this.#deps;
    const lastSeq = await feed.lastDeleted(webhook.orgId, webhook.cursorSeq);
    if (lastSeq === webhook.cursorSeq) return webhook;
    const firstSeq = webhook.cursorSeq + 1;
    log.warn({ webhookId: webhook.id, firstSeq, lastSeq }, 'events were deleted before they were sent to a webhook');
    return progress.lose({ webhook, claim }, lastSeq);
  }

  get #isOver(): boolean {
    return this.#deps.clock.now() >= this.#endsAt;
  }

  /** Sends the event that follows the cursor. */
  async #sendNext(claimed: Claimed, event: ResourceEvent, next?: ResourceEvent): Promise<WebhookRecord | undefined> {
    const { progress } = this.#deps;
    const attempted = await this.#attempt(claimed, event);
    if (!attempted) return undefined;
    if (isAccepted(attempted.result)) return progress.delivered(claimed, attempted);
    const failing = await progress.failed(claimed, attempted);
    if (!failing?.enabled || !next || failing.attempts < PROBE_FROM) return failing;
    const probe = await this.#attempt(claimed, next);
    if (!probe || !isAccepted(probe.result)) return failing;
    return progress.overtook({ webhook: failing, claim: claimed.claim }, attempted, probe);
  }

  async #retry(claimed: Claimed, delivery: DeliveryRow): Promise<WebhookRecord | undefined> {
    const { progress, deliveries } = this.#deps;
    const { webhook } = claimed;
    const event = delivery.event_seq === null ? undefined : await deliveries.findEvent(webhook, delivery.event_seq);
    if (!event) {
      await deliveries.giveUp(delivery.id as never, 'the event is no longer kept');
      return webhook;
    }
    const attempted = await this.#attempt(claimed, event);
    if (!attempted) return undefined;
    const { retry_attempts: attempts, retry_since } = delivery;
    const since = retry_since ?? this.#deps.clock.now();
    return progress.retried(claimed, attempted, { accepted: isAccepted(attempted.result), attempts, since });
  }

  /** Sends an event once. Sends nothing and returns undefined if the claim is gone. */
  async #attempt({ webhook: { id }, claim }: Claimed, event: ResourceEvent): Promise<Attempted | undefined> {
    const webhook = await this.#deps.progress.findClaimed(id, claim);
    if (!webhook) return undefined;
    const sent = { id: event.id, type: event.type, seq: event.seq };
    const result = await send(this.#deps, this.#receiver, webhook, { event, signal: this.#signal });
    this.#deps.metrics.count(result);
    return { sent, result };
  }
}

type SendDeps = Pick<SendEventsDeps, 'secrets' | 'clock'>;

/** Signs and sends an event once. */
export function send(
  { secrets, clock }: SendDeps,
  receiver: Receiver,
  webhook: WebhookRecord,
  { event, signal }: { event: { readonly id: EventId }; signal: AbortSignal },
): Promise<SendResult> {
  const body = JSON.stringify(event);
  return receiver.post(secrets.sign(webhook, { id: event.id, body }, clock.now()), body, signal);
}
