import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/**
 * Adds what an audit event says of a change, and whether a bootstrap key was revoked only because another one followed.
 */
export const changesAndRevocations: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema.alterTable('audit_events').addColumn('changes', 'text').execute();
    await db.schema
      .alterTable('api_keys')
      .addColumn('superseded', 'integer', (column) => column.notNull().defaultTo(0))
      .execute();
  },
};
