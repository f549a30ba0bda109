/** Signatures of the messages that webhooks send, as in the Standard Webhooks specification. */
import type { EventId, OrgId, ProjectId, ResourceEvent, Webhook } from '@cloche/contract';
import { Webhook as StandardWebhook } from 'standardwebhooks';

/** A message that was not signed with the secret, or that is too old. */
export class WebhookVerificationError extends Error {
  override readonly name = 'WebhookVerificationError';
}

/** The event that `cloche.webhooks.test` sends. */
export interface WebhookTestEvent {
  readonly id: EventId;
  readonly type: 'webhook.test';
  readonly at: string;
  readonly orgId: OrgId;
  readonly projectId?: ProjectId;
  readonly data: { readonly webhook: Webhook };
}

/** Fields of a request, as `fetch` and as `node:http` have them. */
export type MessageHeaders = Headers | Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Checks a message that a webhook has sent, and returns its event. A message that is older than five minutes is
 * refused. An event may arrive again: its `id` stays the same.
 *
 * @param body the body as it was received, before it is parsed
 * @param secret the secret of the webhook, `whsec_…`
 * @throws {WebhookVerificationError} if the message was not signed with the secret, or is too old
 */
export function verifyWebhook(body: string, headers: MessageHeaders, secret: string): ResourceEvent | WebhookTestEvent {
  const entries = headers instanceof Headers ? [...headers] : Object.entries(headers);
  const fields = Object.fromEntries(entries.map(([name, value]) => [name, String(value ?? '')]));
  try {
    // Sound: only the service has the secret, and it signs nothing else.
    return new StandardWebhook(secret).verify(body, fields) as ResourceEvent | WebhookTestEvent;
  } catch (cause) {
    throw new WebhookVerificationError(cause instanceof Error ? cause.message : String(cause), { cause });
  }
}

/** Returns the header fields with which a webhook would send `body`, for tests of a receiver. */
export function signWebhook(body: string, id: string, secret: string): Record<string, string> {
  const now = new Date();
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(now.getTime() / 1000)),
    'webhook-signature': new StandardWebhook(secret).sign(id, now, body),
  };
}
