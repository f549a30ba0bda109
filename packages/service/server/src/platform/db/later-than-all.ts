import { type RawBuilder, sql } from 'kysely';

export interface CreationOrder {
  readonly table: string;
  /** Column whose value the rows of one list share. */
  readonly list: string;
  /** Column of the time of creation; `created_at` by default. */
  readonly by?: string;
}

/**
 * Returns a time of creation that is later than those of all rows of the list, so that a list is in the order of
 * creation: also for rows of the same millisecond, and for servers whose clocks differ. Rows that are inserted at the
 * same time can still have equal ones (docs/design/records.md, Lists).
 */
export function laterThanAll(
  { table, list, by = 'created_at' }: CreationOrder,
  listId: unknown,
  createdAt: unknown,
): RawBuilder<number> {
  const planned = sql<number>`cast(${createdAt} as bigint)`;
  const [column, of] = [sql.ref(by), sql.ref(list)];
  const taken = sql`select max(${column}) + 1 from ${sql.table(table)} where ${of} = ${listId} and ${column} >= ${planned}`;
  return sql<number>`coalesce((${taken}), ${planned})`;
}
