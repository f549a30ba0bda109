import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds large responses for replay, so that servers on other hosts than the one that stored a response find it. */
export const replayParts: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable('replay_parts')
      .addColumn('name', 'text', (column) => column.notNull())
      .addColumn('part', 'integer', (column) => column.notNull())
      .addColumn('hour', 'integer', (column) => column.notNull())
      .addColumn('content', 'bytea', (column) => column.notNull())
      .addPrimaryKeyConstraint('replay_parts_key', ['name', 'part'])
      .execute();
    await db.schema.createIndex('replay_parts_hour').on('replay_parts').column('hour').execute();
  },
};
