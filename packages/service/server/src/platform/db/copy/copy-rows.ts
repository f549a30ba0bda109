/** Reads and writes rows of any table, a bounded number at a time. */
import { sql, type Transaction } from 'kysely';
import type { Database, Tables } from '../database.ts';
import type { Row } from './row-digest.ts';
import type { Table } from './table-list.ts';

/** Most rows in memory. A record of a response, the largest row, has some 100 kB. */
const BATCH_ROWS = 200;
/** PostgreSQL takes 65,535 values in a statement. */
const MOST_VALUES = 60_000;
const ROW_ID = 'row_number_of_sqlite';

/** Yields all rows of a table of SQLite, which no other process writes meanwhile. */
export async function* readSqliteRows(db: Database, { name }: Table): AsyncGenerator<Row[], void> {
  for (let last = Number.MIN_SAFE_INTEGER; ; ) {
    const { rows } = await sql<Row>`
      select rowid as ${sql.ref(ROW_ID)}, * from ${sql.table(name)} where rowid > ${last} order by rowid limit ${BATCH_ROWS}`.execute(
      db,
    );
    if (rows.length === 0) return;
    last = Number(rows.at(-1)?.[ROW_ID]);
    yield rows;
  }
}

/** Yields all rows of a table as the transaction sees them. */
export async function* readPostgresRows(tx: Transaction<Tables>, { name }: Table): AsyncGenerator<Row[], void> {
  const cursor = sql.ref(`copy_${name}`);
  await sql`declare ${cursor} no scroll cursor for select * from ${sql.table(name)}`.execute(tx);
  for (;;) {
    const { rows } = await sql<Row>`fetch ${sql.lit(BATCH_ROWS)} from ${cursor}`.execute(tx);
    if (rows.length === 0) break;
    yield rows;
  }
  await sql`close ${cursor}`.execute(tx);
}

export async function insertRows(
  tx: Transaction<Tables>,
  { name, columns }: Table,
  rows: readonly Row[],
): Promise<void> {
  const most = Math.floor(MOST_VALUES / columns.length);
  for (let from = 0; from < rows.length; from += most) {
    const values = rows.slice(from, from + most).map((row) => sql`(${sql.join(columns.map((column) => row[column]))})`);
    const names = sql.join(columns.map((column) => sql.ref(column)));
    await sql`insert into ${sql.table(name)} (${names}) values ${sql.join(values)}`.execute(tx);
  }
}

export async function countRows(db: Database, { name }: Table): Promise<number> {
  const { rows } = await sql<{ count: number }>`select count(*) as count from ${sql.table(name)}`.execute(db);
  return rows[0]?.count ?? 0;
}

/** Advances the counters of auto-incremented columns past their largest values. */
export async function advanceCounters(tx: Transaction<Tables>): Promise<void> {
  const { rows } = await sql<{ name: string; column: string }>`
    select table_name as name, column_name as column from information_schema.columns
    where table_schema = current_schema() and is_identity = 'YES'`.execute(tx);
  for (const { name, column } of rows) {
    await sql`
      select setval(pg_get_serial_sequence(${name}, ${column}), (select max(${sql.ref(column)}) from ${sql.table(name)}))
      where exists (select from ${sql.table(name)})`.execute(tx);
  }
}
