import { setImmediate } from 'node:timers/promises';
import { type Expression, type SelectQueryBuilder, type SqlBool, sql } from 'kysely';
import type { Database } from './database.ts';
import { kindOf } from './database-kind.ts';

/** Place of an entry in a list: the value that orders the list, and the entry's id, which makes the order total. */
export type Place = readonly [by: number | string, id: string];

/** The entries of a list that follow `after`, at most `limit`; those from the beginning without `after`. */
export interface ListPart {
  readonly after?: Place | undefined;
  readonly limit: number;
}

/** Columns that order a list. */
export interface ListOrder {
  readonly by: string;
  readonly id: string;
  readonly direction: 'asc' | 'desc';
}

export const NEWEST_FIRST: ListOrder = { by: 'created_at', id: 'id', direction: 'desc' };

/** The place of a record in a list that has the newest first. */
export function createdPlace({ createdAt, id }: { readonly createdAt: number; readonly id: string }): Place {
  return [createdAt, id];
}

/** Restricts a query to a part of its list, in the order of the list. */
function partOf<DB, Table extends keyof DB, Row>(
  query: SelectQueryBuilder<DB, Table, Row>,
  { by, id, direction }: ListOrder,
  { after, limit, until }: ListPart & { readonly until?: Place | undefined },
): SelectQueryBuilder<DB, Table, Row> {
  const place = sql`(${sql.ref(by)}, ${sql.ref(id)})`;
  const [beyond, upTo] = direction === 'desc' ? [sql.raw('<'), sql.raw('>=')] : [sql.raw('>'), sql.raw('<=')];
  let part = query.orderBy(sql.ref(by), direction).orderBy(sql.ref(id), direction).limit(limit);
  if (after) part = part.where(sql<boolean>`${place} ${beyond} (${after[0]}, ${after[1]})`);
  if (until) part = part.where(sql<boolean>`${place} ${upTo} (${until[0]}, ${until[1]})`);
  return part;
}

/** Entries that one statement looks through, which takes a few milliseconds. */
const LOOKED_THROUGH = 2_000;

/**
 * Returns a part of the list that `query` selects, in its order. With `rare`, a condition that no index serves, looks
 * through a bounded number of entries at a time: so a condition that few entries meet does not occupy the database, and
 * on SQLite the thread, for long.
 */
export async function readPart<DB, Table extends keyof DB, Row>(
  query: SelectQueryBuilder<DB, Table, Row>,
  order: ListOrder,
  part: ListPart,
  rare: readonly Expression<SqlBool>[] = [],
): Promise<Row[]> {
  if (rare.length === 0) return partOf(query, order, part).execute();
  const places = query
    .clearSelect()
    .select([sql<Place[0]>`${sql.ref(order.by)}`.as('by'), sql<string>`${sql.ref(order.id)}`.as('id')]);
  const matching = query.where(({ and }) => and(rare));
  const found: Row[] = [];
  for (let { after } = part; ; ) {
    const last = partOf(places, order, { after, limit: 1 }).offset(LOOKED_THROUGH - 1);
    // Sound: the query selects exactly these two.
    const end = (await last.executeTakeFirst()) as { by: Place[0]; id: string } | undefined;
    const until: Place | undefined = end && [end.by, end.id];
    const limit = part.limit - found.length;
    found.push(...(await partOf(matching, order, { after, until, limit }).execute()));
    if (until === undefined || found.length === part.limit) return found;
    after = until;
    await setImmediate();
  }
}

/** The fields of an entry by which clients filter a list. */
export interface Selection {
  /** Undefined means every project of the organization. */
  readonly projectIds?: readonly string[] | undefined;
  readonly labels?: readonly (readonly [string, string])[] | undefined;
  readonly idPrefix?: string | undefined;
  /** Milliseconds since the epoch, both excluded. */
  readonly createdAfter?: number | undefined;
  readonly createdBefore?: number | undefined;
}

/** Returns the condition that a column with a JSON object of strings has these entries. */
export function hasEntries(db: Database, column: string, entries: readonly (readonly [string, string])[]) {
  const has = ([key, value]: readonly [string, string]) =>
    kindOf(db) === 'postgresql'
      ? sql<boolean>`${sql.ref(column)}::json ->> ${key} = ${value}`
      : sql<boolean>`exists (select 1 from json_each(${sql.ref(column)}) as entry where entry.key = ${key} and entry.value = ${value})`;
  return sql<boolean>`(${sql.join(entries.map(has), sql` and `)})`;
}

/** Returns the condition that a column with a JSON array of strings has no others than `values`. */
export function hasOnly(db: Database, column: string, values: readonly string[]) {
  const elements =
    kindOf(db) === 'postgresql'
      ? sql`json_array_elements_text(${sql.ref(column)}::json) as element(value)`
      : sql`json_each(${sql.ref(column)}) as element`;
  const others = values.length === 0 ? sql`` : sql`where element.value not in (${sql.join(values)})`;
  return sql<boolean>`${sql.ref(column)} is not null and not exists (select 1 from ${elements} ${others})`;
}

/** Returns the conditions that select by what a list shows of each entry of `table`; no index serves them. */
export function selected(
  db: Database,
  { projectIds, labels = [], idPrefix, createdAfter, createdBefore }: Selection,
  table: string,
): Expression<SqlBool>[] {
  const conditions: Expression<SqlBool>[] = [];
  const column = (name: string) => sql.ref(`${table}.${name}`);
  if (projectIds?.length === 0) conditions.push(sql<boolean>`1 = 0`);
  else if (projectIds) conditions.push(sql<boolean>`${column('project_id')} in (${sql.join(projectIds)})`);
  if (labels.length > 0) conditions.push(hasEntries(db, `${table}.metadata`, labels));
  if (idPrefix !== undefined) conditions.push(hasPrefix(`${table}.id`, idPrefix));
  if (createdAfter !== undefined) conditions.push(sql<boolean>`${column('created_at')} > ${createdAfter}`);
  if (createdBefore !== undefined) conditions.push(sql<boolean>`${column('created_at')} < ${createdBefore}`);
  return conditions;
}

/** Returns the condition that an id begins with `prefix`. */
export function hasPrefix(column: string, prefix: string) {
  return sql<boolean>`substr(${sql.ref(column)}, 1, ${sql.lit(prefix.length)}) = ${prefix}`;
}
