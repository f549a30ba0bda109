import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

const TIME = 'bigint';

/** Adds webhooks, each with its place among the events of its organization, and their deliveries. */
export const webhooks: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('webhooks')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('org_id', 'text', (column) => column.notNull())
      .addColumn('project_id', 'text')
      .addColumn('url', 'text', (column) => column.notNull())
      .addColumn('events', 'text', (column) => column.notNull())
      .addColumn('description', 'text')
      .addColumn('enabled', 'integer', (column) => column.notNull())
      .addColumn('disabled_reason', 'text')
      .addColumn('secret', 'text', (column) => column.notNull())
      .addColumn('previous_secret', 'text')
      .addColumn('previous_secret_until', TIME)
      .addColumn('cursor_seq', 'bigint', (column) => column.notNull())
      .addColumn('delivery_seq', 'bigint', (column) => column.notNull())
      .addColumn('attempts', 'integer', (column) => column.notNull())
      .addColumn('failing_since', TIME)
      .addColumn('next_attempt_at', TIME, (column) => column.notNull())
      .addColumn('claimed_by', 'text')
      .addColumn('claimed_until', TIME)
      .addColumn('created_at', TIME, (column) => column.notNull())
      .addColumn('updated_at', TIME, (column) => column.notNull())
      .addColumn('deleted_at', TIME)
      .addColumn('idempotency_record_id', 'text', (column) => column.unique())
      .execute();
    await db.schema.createIndex('webhooks_org').on('webhooks').columns(['org_id', 'created_at']).execute();
    await db.schema
      .createTable('webhook_deliveries')
      .addColumn('id', 'text', (column) => column.primaryKey())
      .addColumn('webhook_id', 'text', (column) => column.notNull().references('webhooks.id'))
      .addColumn('seq', 'bigint', (column) => column.notNull())
      .addColumn('event_id', 'text', (column) => column.notNull())
      .addColumn('event_type', 'text', (column) => column.notNull())
      .addColumn('event_seq', 'bigint')
      .addColumn('status', 'text', (column) => column.notNull())
      .addColumn('attempts', 'integer', (column) => column.notNull())
      .addColumn('created_at', TIME, (column) => column.notNull())
      .addColumn('last_attempt_at', TIME)
      .addColumn('retry_at', TIME)
      .addColumn('retry_attempts', 'integer', (column) => column.notNull())
      .addColumn('retry_since', TIME)
      .addColumn('response_status', 'integer')
      .addColumn('response_body', 'text')
      .addColumn('error', 'text')
      .addUniqueConstraint('webhook_deliveries_by_seq', ['webhook_id', 'seq'])
      .addUniqueConstraint('webhook_deliveries_by_event', ['webhook_id', 'event_seq'])
      .execute();
    // Finds deliveries that are retried by themselves, and those whose time is up.
    const index = (name: string) => db.schema.createIndex(name).on('webhook_deliveries');
    await index('webhook_deliveries_retry').columns(['webhook_id', 'retry_at']).execute();
    await index('webhook_deliveries_created').column('created_at').execute();
  },
};
