import type { Database } from './database.ts';

/**
 * Most events that are searched for one page. Without this limit, a filter that matches few events could occupy the
 * database for seconds.
 */
const LOOKED_THROUGH = 1000;

/** Tables whose rows are numbered by organization. */
type NumberedTable = 'audit_events' | 'events';

/**
 * Returns the number of the last event to search for the page after `afterSeq`, so that a page takes milliseconds
 * whatever its filter is. Returns undefined if no event follows.
 */
export async function lookThrough(
  db: Database,
  table: NumberedTable,
  { orgId, afterSeq }: { orgId: string; afterSeq: number },
): Promise<number | undefined> {
  const row = await db
    .selectFrom((from) =>
      from
        .selectFrom(table)
        .select('seq')
        .where('org_id', '=', orgId)
        .where('seq', '>', afterSeq)
        .orderBy('seq')
        .limit(LOOKED_THROUGH)
        .as('following'),
    )
    .select(({ fn }) => fn.max('seq').as('last'))
    .executeTakeFirst();
  return row?.last ?? undefined;
}
