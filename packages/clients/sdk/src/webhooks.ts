import type {
  CreateWebhookBody,
  DeliveryId,
  EventPattern,
  Operations,
  ResponseOf,
  UpdateWebhookBody,
  Webhook,
  WebhookDelivery,
  WebhookId,
} from '@cloche/contract';
import type { ApiClient } from './api-client.ts';
import { type PagedList, type PageOptions, pagedList } from './paged-list.ts';
import type { CallOptions } from './request.ts';

export interface CreateWebhookOptions extends CallOptions {
  /** Types of events to send. `sandbox.*` stands for all types that begin with `sandbox.`, `*` for all types. */
  events: readonly EventPattern[];
  /** Only events of this project. Default: every event of the organization. */
  projectId?: string | undefined;
  /** Purpose of the webhook, as free text. */
  description?: string | undefined;
}

export interface UpdateWebhookOptions extends CallOptions {
  url?: string | undefined;
  events?: readonly EventPattern[] | undefined;
  /** Whether events are sent. While it is false, events wait. */
  enabled?: boolean | undefined;
}

export interface ListDeliveriesOptions extends CallOptions {
  /** Only deliveries with a larger `seq`. Default: all. */
  afterSeq?: number | undefined;
  /** Most deliveries in the page, at most 500. Default: 100. */
  limit?: number | undefined;
}

/** A webhook and its secret, which cannot be shown again. */
export interface WebhookWithSecret {
  webhook: Webhook;
  secret: string;
}

/** The webhooks of the organization, as far as the key may see them. */
export class Webhooks {
  readonly #client: ApiClient;

  constructor(client: ApiClient) {
    this.#client = client;
  }

  /**
   * Creates a webhook: `url` receives the events from now on. Only this response has the secret; pass it to
   * `verifyWebhook` of `@cloche/sdk/webhooks` in the receiver.
   *
   * ```ts
   * const { secret } = await cloche.webhooks.create('https://example.com/hook', { events: ['sandbox.*'] });
   * ```
   */
  create(url: string, options: CreateWebhookOptions): Promise<WebhookWithSecret> {
    const { events, projectId, description, ...call } = options;
    const body: CreateWebhookBody = {
      url,
      events: [...events],
      // Ids are opaque, so only the service can check them.
      ...(projectId === undefined ? {} : { projectId: projectId as NonNullable<CreateWebhookBody['projectId']> }),
      ...(description === undefined ? {} : { description }),
    };
    return this.#client.call('createWebhook', { ...call, body });
  }

  /** Lists the webhooks that are not deleted, newest first. */
  list({ projectId, ...call }: PageOptions & { projectId?: string | undefined } = {}): PagedList<Webhook> {
    return pagedList(this.#client, 'listWebhooks', { ...call, query: { projectId } });
  }

  async get(webhookId: string, options: CallOptions = {}): Promise<Webhook> {
    return (await this.#client.call('getWebhook', { ...options, params: paramsOf(webhookId) })).webhook;
  }

  /** Sets the given fields. A new URL, or `enabled: true`, retries failed deliveries at once. */
  async update(webhookId: string, { url, events, enabled, ...call }: UpdateWebhookOptions): Promise<Webhook> {
    const body: UpdateWebhookBody = {
      ...(url === undefined ? {} : { url }),
      ...(events === undefined ? {} : { events: [...events] }),
      ...(enabled === undefined ? {} : { enabled }),
    };
    return (await this.#client.call('updateWebhook', { ...call, params: paramsOf(webhookId), body })).webhook;
  }

  /** Deletes a webhook, its secret and its deliveries. Idempotent. */
  async delete(webhookId: string, options: CallOptions = {}): Promise<Webhook> {
    return (await this.#client.call('deleteWebhook', { ...options, params: paramsOf(webhookId) })).webhook;
  }

  /** Replaces the secret. For 24 hours, messages are signed with both. */
  rotateSecret(webhookId: string, options: CallOptions = {}): Promise<WebhookWithSecret> {
    return this.#client.call('rotateWebhookSecret', { ...options, params: paramsOf(webhookId) });
  }

  /** Sends an event of type `webhook.test` once, and returns the result, at most 15 seconds later. */
  async test(webhookId: string, options: CallOptions = {}): Promise<WebhookDelivery> {
    return (await this.#client.call('testWebhook', { ...options, params: paramsOf(webhookId) })).delivery;
  }

  /** Returns a page of deliveries, oldest first. Continue with the last `seq` as `afterSeq` while `hasMore`. */
  listDeliveries(
    webhookId: string,
    { afterSeq, limit, ...call }: ListDeliveriesOptions = {},
  ): Promise<ResponseOf<Operations['listWebhookDeliveries']>> {
    const query = { ...(afterSeq === undefined ? {} : { afterSeq }), ...(limit === undefined ? {} : { limit }) };
    return this.#client.call('listWebhookDeliveries', { ...call, params: paramsOf(webhookId), query });
  }

  /** Retries a delivery at once. Returns it as `pending`. */
  async resend(webhookId: string, deliveryId: string, options: CallOptions = {}): Promise<WebhookDelivery> {
    // Ids are opaque, so only the service can check them.
    const params = { ...paramsOf(webhookId), deliveryId: deliveryId as DeliveryId };
    return (await this.#client.call('resendWebhookDelivery', { ...options, params })).delivery;
  }
}

function paramsOf(webhookId: string): { webhookId: WebhookId } {
  // Ids are opaque, so only the service can check them.
  return { webhookId: webhookId as WebhookId };
}
