/** Fills every table of a SQLite database with rows of its types. */
import { sql } from 'kysely';
import type { Database } from '../src/platform/db/database.ts';

interface Column {
  readonly name: string;
  readonly type: string;
  readonly notnull: number;
  readonly pk: number;
}

/** Inserts `count` rows into each table. Row `i` refers to row `i` of another table. */
export async function fillTables(db: Database, tables: readonly { name: string }[], count: number): Promise<void> {
  await sql`pragma foreign_keys = off`.execute(db);
  for (const { name } of tables) {
    const { rows: columns } = await sql<Column>`select * from pragma_table_info(${name})`.execute(db);
    const { rows: references } = await sql<{ from: string; table: string }>`
      select "from", "table" from pragma_foreign_key_list(${name})`.execute(db);
    const names = sql.join(columns.map((column) => sql.ref(column.name)));
    for (let row = 0; row < count; row++) {
      const values = columns.map((column) => {
        const referred = references.find(({ from }) => from === column.name);
        return referred ? `${referred.table}_id_${row}` : sampleFor(name, column, row);
      });
      await sql`insert into ${sql.table(name)} (${names}) values (${sql.join(values)})`.execute(db);
    }
  }
  const { rows: dangling } = await sql<{ table: string }>`select "table" from pragma_foreign_key_check`.execute(db);
  if (dangling.length > 0) throw new Error(`rows of ${dangling[0]?.table} refer to none`);
  await sql`pragma foreign_keys = on`.execute(db);
}

function sampleFor(table: string, { name, type, notnull, pk }: Column, row: number): string | number | null {
  // Every third row has no value where it may have none.
  if (notnull === 0 && pk === 0 && row % 3 === 0) return null;
  if (type.toLowerCase() === 'text')
    return name === 'id' || row % 5 > 0 ? `${table}_${name}_${row}` : `'"\\\n ${row} äß 🜁`;
  // A small number cannot show that a larger one would be cut off.
  if (type.toLowerCase() === 'bigint' && row % 7 === 0) return Number.MAX_SAFE_INTEGER - row;
  return row + 1;
}
