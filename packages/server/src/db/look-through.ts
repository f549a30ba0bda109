import type { Database } from './database.ts';

/**
 * Most events that one page looks through. A filter that matches few events could otherwise occupy the database for
 * seconds.
 */
const LOOKED_THROUGH = 1000;

/** Tables whose rows are numbered by organization. */
type NumberedTable = 'audit_events' | 'events';

/**
 * Returns the last number that a page after `afterSeq` looks at, so that a page takes milliseconds whatever its filter;
 * undefined if nothing follows.
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
