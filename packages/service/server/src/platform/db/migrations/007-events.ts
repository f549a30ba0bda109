import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds the events of each organization, and the counter that numbers them. */
export const events: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('event_sequences')
      .addColumn('org_id', 'text', (column) => column.primaryKey())
      .addColumn('last_seq', 'bigint', (column) => column.notNull())
      .execute();
    await db.schema
      .createTable('events')
      .addColumn('org_id', 'text', (column) => column.notNull())
      .addColumn('seq', 'bigint', (column) => column.notNull())
      .addColumn('id', 'text', (column) => column.notNull())
      .addColumn('type', 'text', (column) => column.notNull())
      .addColumn('at', 'bigint', (column) => column.notNull())
      .addColumn('project_id', 'text')
      .addColumn('data', 'text', (column) => column.notNull())
      .addPrimaryKeyConstraint('events_by_seq', ['org_id', 'seq'])
      .execute();
    // Finds events whose time is up.
    await db.schema.createIndex('events_at').on('events').column('at').execute();
  },
};
