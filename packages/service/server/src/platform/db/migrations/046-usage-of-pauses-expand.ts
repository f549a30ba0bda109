import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

/** Adds the time for which sandboxes were paused. */
export const usageOfPauses: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    for (const table of ['sandbox_usage', 'usage_hours']) {
      await sql.raw(`alter table ${table} add column paused_ms bigint not null default 0`).execute(db);
    }
  },
};
