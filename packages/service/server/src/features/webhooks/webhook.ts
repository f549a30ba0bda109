import type { OrgId, ProjectId, Webhook, WebhookId } from '@cloche/contract';
import type { Selectable } from 'kysely';
import { timestamp } from '../../platform/base/clock.ts';
import type { WebhookTable } from '../../platform/db/tables/webhook-tables.ts';

export type DisabledReason = NonNullable<Webhook['disabledReason']>;

/** Times are milliseconds since the epoch. Secrets are encrypted. */
export interface WebhookRecord {
  readonly id: WebhookId;
  readonly orgId: OrgId;
  readonly projectId: ProjectId | undefined;
  readonly url: string;
  /** Patterns of event types. */
  readonly events: readonly string[];
  readonly description: string | undefined;
  readonly enabled: boolean;
  readonly disabledReason: DisabledReason | undefined;
  readonly secret: string;
  readonly previousSecret: string | undefined;
  readonly previousSecretUntil: number | undefined;
  /** The events of the organization up to this one are done. */
  readonly cursorSeq: number;
  /** The latest events that were deleted before they were sent. */
  readonly lostEvents: Webhook['lostEvents'];
  /** Failed attempts since the last success, of the event that follows the cursor. */
  readonly attempts: number;
  readonly failingSince: number | undefined;
  readonly nextAttemptAt: number;
  readonly createdAt: number;
  readonly updatedAt: number;
  readonly deletedAt: number | undefined;
}

/** Returns the webhook as clients see it, without secrets. */
export function toWebhook(record: WebhookRecord, now: number): Webhook {
  const { previousSecretUntil, failingSince } = record;
  return {
    id: record.id,
    orgId: record.orgId,
    ...(record.projectId === undefined ? {} : { projectId: record.projectId }),
    url: record.url,
    events: [...record.events],
    ...(record.description === undefined ? {} : { description: record.description }),
    enabled: record.enabled,
    ...(record.disabledReason === undefined ? {} : { disabledReason: record.disabledReason }),
    ...(failingSince === undefined ? {} : { failingSince: timestamp(failingSince) }),
    ...(failingSince === undefined || !record.enabled ? {} : { nextAttemptAt: timestamp(record.nextAttemptAt) }),
    ...(record.lostEvents && { lostEvents: record.lostEvents }),
    ...(previousSecretUntil === undefined || previousSecretUntil <= now
      ? {}
      : { previousSecretExpiresAt: timestamp(previousSecretUntil) }),
    createdAt: timestamp(record.createdAt),
    updatedAt: timestamp(record.updatedAt),
    ...(record.deletedAt === undefined ? {} : { deletedAt: timestamp(record.deletedAt) }),
  };
}

/** Returns the webhook as it is in events, which keys without `webhook:read` can have. */
export function toWebhookOfEvent(record: WebhookRecord, now: number): Webhook {
  return { ...toWebhook(record, now), url: new URL(record.url).origin };
}

/** Converts a row. The casts are sound because only the service writes these columns. */
export function toRecord(row: Selectable<WebhookTable>): WebhookRecord {
  return {
    id: row.id as WebhookId,
    orgId: row.org_id as OrgId,
    projectId: (row.project_id ?? undefined) as ProjectId | undefined,
    url: row.url,
    events: JSON.parse(row.events),
    description: row.description ?? undefined,
    enabled: row.enabled === 1,
    disabledReason: (row.disabled_reason ?? undefined) as DisabledReason | undefined,
    secret: row.secret,
    previousSecret: row.previous_secret ?? undefined,
    previousSecretUntil: row.previous_secret_until ?? undefined,
    cursorSeq: row.cursor_seq,
    lostEvents:
      row.lost_first_seq === null || row.lost_last_seq === null
        ? undefined
        : { firstSeq: row.lost_first_seq, lastSeq: row.lost_last_seq },
    attempts: row.attempts,
    failingSince: row.failing_since ?? undefined,
    nextAttemptAt: row.next_attempt_at,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    deletedAt: row.deleted_at ?? undefined,
  };
}
