import type { DeliveryId, EventId, WebhookDelivery, WebhookId } from '@cloche/contract';
import type { Selectable } from 'kysely';
import { timestamp } from '../../platform/base/clock.ts';
import type { WebhookDeliveryTable } from '../../platform/db/tables/webhook-tables.ts';

/** Result of one attempt to send a message. */
export type SendResult =
  | { readonly kind: 'answered'; readonly status: number; readonly body: string }
  /** The receiver did not answer. `error` is for the owner of the webhook. */
  | { readonly kind: 'failed'; readonly error: string };

export function isAccepted(result: SendResult): boolean {
  return result.kind === 'answered' && result.status >= 200 && result.status < 300;
}

/** Whether the receiver has answered that it accepts no messages any more. */
export function isGone(result: SendResult): boolean {
  return result.kind === 'answered' && result.status === 410;
}

export type DeliveryRow = Selectable<WebhookDeliveryTable>;

/** Converts a row. `nextAttemptAt` is when its webhook is tried, for a delivery that waits at the cursor. */
export function toDelivery(row: DeliveryRow, nextAttemptAt: number): WebhookDelivery {
  const { response_status: status, response_body: body } = row;
  return {
    id: row.id as DeliveryId,
    webhookId: row.webhook_id as WebhookId,
    seq: row.seq,
    eventId: row.event_id as EventId,
    eventType: row.event_type,
    ...(row.event_seq === null ? {} : { eventSeq: row.event_seq }),
    status: row.status,
    attempts: row.attempts,
    createdAt: timestamp(row.created_at),
    ...(row.last_attempt_at === null ? {} : { lastAttemptAt: timestamp(row.last_attempt_at) }),
    ...(row.status === 'pending' ? { nextAttemptAt: timestamp(row.retry_at ?? nextAttemptAt) } : {}),
    ...(status === null ? {} : { response: { status, ...(body === null ? {} : { body }) } }),
    ...(row.error === null ? {} : { error: row.error }),
  };
}
