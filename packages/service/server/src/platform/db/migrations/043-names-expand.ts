import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds what names and start commands of sandboxes store. */
export const names: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await sql.raw('alter table sandboxes add column name text').execute(db);
    await sql.raw('alter table sandboxes add column start_command text').execute(db);
    // Not by the status: a failed sandbox, whose name may be taken again, is `expiring` while it is destroyed.
    await sql
      .raw(
        `create unique index sandboxes_name on sandboxes (project_id, name)
         where name is not null and failure_reason is null and status <> 'destroyed'`,
      )
      .execute(db);
    await sql.raw('create index sandboxes_start_command on sandboxes (id) where start_command is not null').execute(db);
  },
};
