import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds the index by which the sandboxes of a template version are found, of all that have ever been. */
export const versions: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await sql.raw('create index sandboxes_template_version on sandboxes (template_version_id, created_at)').execute(db);
  },
};
