import { setImmediate } from 'node:timers/promises';
import type { Database } from '../../../platform/db/database.ts';
import { locksRows } from '../../../platform/db/row-locks.ts';
import { sandboxThat } from '../../sandbox-status/status-facts.ts';

/** Records deleted in one transaction; bounds how long other requests wait for the database. */
const BATCH = 100;
const OF_SANDBOX = [
  'code_contexts',
  'commands',
  'previews',
  'sandbox_usage',
  'sandbox_activity',
  'sandbox_notes',
] as const;

/** Deletes the records of ended sandboxes after their retention period. */
export class EndedRecords {
  readonly #db: Database;

  constructor(db: Database) {
    this.#db = db;
  }

  /**
   * Deletes the records of sandboxes that ended before the time `before`, with those of their contexts, commands,
   * previews and usage. Returns the number of sandboxes. Keeps the records of sandboxes that have artifacts.
   */
  async forget(before: number): Promise<number> {
    let forgotten = 0;
    for (let batch = BATCH; batch === BATCH; forgotten += batch) {
      batch = await this.#deleteSome(before);
      await setImmediate();
    }
    return forgotten;
  }

  /** Passes over records that another server is deleting. */
  async #deleteSome(before: number): Promise<number> {
    return this.#db.transaction().execute(async (tx) => {
      const rows = await tx
        .selectFrom('sandboxes')
        .select('id')
        .where(sandboxThat('isEnded'))
        .where(({ fn, eb }) => eb(fn.coalesce('destroyed_at', 'created_at'), '<', before))
        .where(({ not, exists, selectFrom }) =>
          not(exists(selectFrom('artifacts').select('id').whereRef('artifacts.sandbox_id', '=', 'sandboxes.id'))),
        )
        .limit(BATCH)
        .$if(locksRows(this.#db), (query) => query.forUpdate().skipLocked())
        .execute();
      const ids = rows.map(({ id }) => id);
      if (ids.length === 0) return 0;
      for (const table of OF_SANDBOX) {
        await tx.deleteFrom(table).where('sandbox_id', 'in', ids).execute();
      }
      await tx.deleteFrom('sandboxes').where('id', 'in', ids).execute();
      return ids.length;
    });
  }
}
