import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

const STATEMENTS = [
  'alter table sandbox_usage add column paused_ms bigint not null default 0',
  'alter table usage_hours add column paused_ms bigint not null default 0',
  'alter table sandboxes add column retention_notice_at bigint',
  'create index sandboxes_retention_notice on sandboxes (retention_notice_at) where retention_notice_at is not null',
];

/** Adds the time for which sandboxes were paused, and when the end of a pause is announced. */
export const pauseAccounts: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    for (const statement of STATEMENTS) await sql.raw(statement).execute(db);
  },
};
