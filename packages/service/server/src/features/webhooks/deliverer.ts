import type { OrgId, WebhookId } from '@cloche/contract';
import { pause } from '@cloche/node-support';
import type { Logger } from 'pino';
import type { Clock } from '../../platform/base/clock.ts';
import type { IdSource } from '../../platform/base/id-source.ts';
import { Loop } from '../../platform/base/loop.ts';
import type { ClaimedRows } from '../../platform/db/claimed-rows.ts';
import type { EventOutbox } from '../../platform/outbox/event-outbox.ts';
import type { SendEvents } from './send-events.ts';
import type { SendingSlots } from './sending-slots.ts';
import type { WebhookProgress } from './webhook-progress.ts';

/** Longest time until a retry and an event of another server are noticed. */
const LOOK_AGAIN_MS = 1000;
/** Pause before a webhook is served again after an unexpected error, such as one of the database. */
const RETRY_MS = 1000;
/** Shortest time between two looks, so that many changes at once cost few queries. */
const BETWEEN_LOOKS_MS = 50;

export interface DelivererDeps {
  readonly progress: WebhookProgress;
  readonly sending: SendEvents;
  readonly claims: ClaimedRows;
  readonly slots: SendingSlots;
  readonly outbox: EventOutbox;
  readonly serverId: string;
  readonly ids: IdSource;
  readonly clock: Clock;
  readonly log: Logger;
}

/**
 * Sends events to webhooks as they become due. Several servers share the work: each claims a webhook before it sends.
 */
export class Deliverer {
  readonly #deps: DelivererDeps;
  readonly #stop = new AbortController();
  readonly #turns = new Set<Promise<void>>();
  #looks: Loop | undefined;
  /** Whether any webhook was enabled at the last look, at most `LOOK_AGAIN_MS` ago. */
  #hasWebhooks = true;

  constructor(deps: DelivererDeps) {
    this.#deps = deps;
    // Skipped while no webhook is enabled: a query after each event was a fifth of the server's work for creating a
    // sandbox.
    deps.outbox.onCommitted(() => {
      if (this.#hasWebhooks) this.wake();
    });
  }

  /** Starts to send, beginning with what an earlier process of this server was sending when it ended. */
  async start(): Promise<void> {
    await this.#deps.claims.releaseAllOf(this.#deps.serverId);
    const look = () => this.#beginDue().then(() => LOOK_AGAIN_MS);
    this.#looks = new Loop('webhooks', look, LOOK_AGAIN_MS, this.#deps.log, BETWEEN_LOOKS_MS);
  }

  /** Looks for due webhooks now. */
  wake(): void {
    this.#looks?.wake();
  }

  /** Ends attempts that are under way. They are repeated at the next start or by another server. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#looks?.stop();
    await Promise.all(this.#turns);
  }

  async #beginDue(): Promise<void> {
    const { progress, slots } = this.#deps;
    this.#hasWebhooks = await progress.anyEnabled();
    if (!this.#hasWebhooks || slots.areAllUsed) return;
    for (const { id, orgId } of await progress.listDue(slots.busy())) {
      if (slots.areAllUsed || this.#stop.signal.aborted) return;
      await this.#begin(id, orgId);
    }
  }

  /** Claims a webhook and begins to serve it, if there is a slot and no other process holds the claim. */
  async #begin(id: WebhookId, orgId: OrgId): Promise<void> {
    const { claims, slots, serverId, ids, clock } = this.#deps;
    using opened = new DisposableStack();
    const slot = opened.use(slots.take(orgId));
    const claim = `${serverId}:${ids.next('clm_')}`;
    if (!slot || !(await claims.acquire(id, claim, clock.now()))) return;
    const kept = opened.move();
    const turn = this.#turn(id, claim).finally(() => {
      kept.dispose();
      this.#turns.delete(turn);
      this.wake();
    });
    this.#turns.add(turn);
  }

  /** After an unexpected error, the claim is kept for a while, so that the webhook is not served again at once. */
  async #turn(id: WebhookId, claim: string): Promise<void> {
    const { progress, sending, claims, log } = this.#deps;
    const { signal } = this.#stop;
    try {
      const webhook = await progress.findClaimed(id, claim);
      if (webhook) await sending.run(webhook, claim, signal);
      await claims.release(id, claim);
    } catch (error) {
      if (signal.aborted) return;
      log.warn({ err: error, webhookId: id }, 'events were not sent to a webhook and will be tried again');
      await pause(RETRY_MS, signal);
      // If the database does not answer, the webhook is served again when the claim has expired.
      await claims.release(id, claim).catch(() => undefined);
    }
  }
}
