import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds why the launch of a sandbox failed, so that builds and workspace runs need not read the text for people. */
export const failureKinds: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema.alterTable('sandboxes').addColumn('failure_kind', 'text').execute();
  },
};
