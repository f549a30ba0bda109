import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds what names of sandboxes store. */
export const names: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await sql.raw('alter table sandboxes add column name text').execute(db);
    // Not by the status: a failed sandbox, whose name may be taken again, is `expiring` while it is destroyed.
    await sql
      .raw(
        `create unique index sandboxes_name on sandboxes (project_id, name)
         where name is not null and failure_reason is null and status <> 'destroyed'`,
      )
      .execute(db);
  },
};
