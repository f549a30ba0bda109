import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds the audit events of each organization, chained by hashes, with their signed end and beginning. */
export const audit: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('audit_heads')
      .addColumn('org_id', 'text', (column) => column.primaryKey())
      .addColumn('last_seq', 'bigint', (column) => column.notNull())
      .addColumn('last_hash', 'text', (column) => column.notNull())
      .addColumn('signature', 'text', (column) => column.notNull())
      .execute();
    await db.schema
      .createTable('audit_cuts')
      .addColumn('org_id', 'text', (column) => column.primaryKey())
      .addColumn('seq', 'bigint', (column) => column.notNull())
      .addColumn('hash', 'text', (column) => column.notNull())
      .addColumn('signature', 'text', (column) => column.notNull())
      .execute();
    let events = db.schema
      .createTable('audit_events')
      .addColumn('org_id', 'text', (column) => column.notNull())
      .addColumn('seq', 'bigint', (column) => column.notNull())
      .addColumn('at', 'bigint', (column) => column.notNull())
      .addColumn('omitted', 'integer');
    for (const name of ['project_id', 'code', 'request_id', 'ip']) events = events.addColumn(name, 'text');
    for (const name of REQUIRED) events = events.addColumn(name, 'text', (column) => column.notNull());
    await events.addPrimaryKeyConstraint('audit_events_by_seq', ['org_id', 'seq']).execute();
    await db.schema
      .createTable('audited_expiries')
      .addColumn('api_key_id', 'text', (column) => column.primaryKey())
      .execute();
    await db.schema.createIndex('api_keys_expires').on('api_keys').column('expires_at').execute();
  },
};

const REQUIRED = [
  'id',
  'actor_type',
  'actor_id',
  'action',
  'target_type',
  'target_id',
  'outcome',
  'prev_hash',
  'hash',
] as const;
