import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

const COLUMNS = [
  'sandboxes add column pause_after_idle_ms bigint',
  'sandboxes add column pause_on_expiry integer not null default 0',
  'sandboxes add column pause_wake text',
  'sandboxes add column pause_retain_ms bigint',
  'sandbox_activity add column in_use integer',
  'sandbox_activity add column last_used_at bigint',
];

/** Adds what pauses by themselves need: the policies of sandboxes, and their uses apart from what runs by itself. */
export const pausePolicies: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    for (const column of COLUMNS) await sql.raw(`alter table ${column}`).execute(db);
  },
};
