import type { Kysely } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Finds what refers to a project, so that the row of a deleted project can be removed without a look at all rows. */
export const deletedRecords: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    for (const table of ['sandboxes', 'previews', 'artifacts', 'secrets', 'webhooks', 'workspace_runs'] as const) {
      await db.schema.createIndex(`${table}_project`).on(table).column('project_id').execute();
    }
  },
};
