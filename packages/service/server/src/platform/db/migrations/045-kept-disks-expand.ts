import { type Kysely, sql } from 'kysely';
import type { Migration } from 'kysely/migration';

const COLUMNS = [
  'pause_memory text',
  'paused_memory text',
  'lost_reason text',
  'resumed_lost_reason text',
  'disk_generation integer',
];

/** Adds what pauses store that keep the files of sandboxes without their memory. */
export const keptDisks: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    for (const column of COLUMNS) await sql.raw(`alter table sandboxes add column ${column}`).execute(db);
  },
};
