import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

const COLUMNS = [
  'pause_state text',
  'pause_epoch bigint not null default 0',
  'pause_owner text',
  'pause_token text',
  'paused_at bigint',
  'paused_by text',
  'resumed_at bigint',
  'resumed_by text',
  'session_started_at bigint',
  'wake_ttl_ms bigint',
];

/** Adds what pauses of sandboxes store. */
export const pauses: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    for (const column of COLUMNS) await sql.raw(`alter table sandboxes add column ${column}`).execute(db);
    await sql.raw('alter table commands add column pending_signal text').execute(db);
  },
};
