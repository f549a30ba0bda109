import type { Generated } from 'kysely';

export interface WebhookTables {
  webhooks: WebhookTable;
  webhook_deliveries: WebhookDeliveryTable;
}

export interface WebhookTable {
  id: string;
  org_id: string;
  /** Null for the events of the whole organization. */
  project_id: string | null;
  url: string;
  /** JSON array of patterns. */
  events: string;
  description: string | null;
  enabled: number;
  disabled_reason: string | null;
  /** Encrypted; empty once the webhook is deleted. */
  secret: string;
  previous_secret: string | null;
  previous_secret_until: number | null;
  /** The events of the organization up to this one are done: delivered, set aside or not wanted. */
  cursor_seq: number;
  /** The latest events that were deleted before they were sent; null if none were. */
  lost_first_seq: Generated<number | null>;
  lost_last_seq: Generated<number | null>;
  /** Number of the last delivery. */
  delivery_seq: number;
  /** Failed attempts since the last success, of the event that follows the cursor. */
  attempts: number;
  failing_since: number | null;
  /** No event is sent before this time. */
  next_attempt_at: number;
  /** The delivery process that sends to the webhook. */
  claimed_by: string | null;
  claimed_until: number | null;
  created_at: number;
  updated_at: number;
  deleted_at: number | null;
  /** Unique, so that one idempotency key never creates two webhooks. */
  idempotency_record_id: string | null;
}

export interface WebhookDeliveryTable {
  id: string;
  webhook_id: string;
  /** Numbers the deliveries of a webhook. */
  seq: number;
  event_id: string;
  event_type: string;
  /** Null for a test. Unique within the webhook. */
  event_seq: number | null;
  status: 'pending' | 'delivered' | 'failed';
  attempts: number;
  created_at: number;
  last_attempt_at: number | null;
  /**
   * When it is tried by itself; null for a delivery that waits at the cursor of its webhook, and for one that is done.
   */
  retry_at: number | null;
  /** Failed attempts by itself. */
  retry_attempts: number;
  retry_since: number | null;
  response_status: number | null;
  /** Null for all but the latest deliveries of a webhook. */
  response_body: string | null;
  error: string | null;
}
