import { sql } from 'kysely';
import type { Database } from '../database.ts';

export interface Table {
  readonly name: string;
  /** Sorted by name. */
  readonly columns: readonly string[];
}

/**
 * Tables that are not copied: leases, which belong to processes that have ended, and a table that a server with SQLite
 * does not use.
 */
const NOT_COPIED: readonly string[] = ['server_leases', 'replay_parts'];

/** Returns the tables whose rows are copied. */
export async function listTables(db: Database): Promise<Table[]> {
  const tables = await db.introspection.getTables();
  return tables
    .filter(({ name, isView }) => !isView && !name.startsWith('sqlite_') && !NOT_COPIED.includes(name))
    .map(({ name, columns }) => ({ name, columns: columns.map((column) => column.name).sort() }));
}

/** Returns the tables of a PostgreSQL database in an order in which each follows the tables that it refers to. */
export async function inOrderOfReferences(target: Database, tables: readonly Table[]): Promise<Table[]> {
  const { rows } = await sql<{ of: string; to: string }>`
    select of_table.relname as of, to_table.relname as to from pg_constraint
    join pg_class of_table on of_table.oid = conrelid join pg_class to_table on to_table.oid = confrelid
    where contype = 'f' and connamespace = current_schema()::regnamespace`.execute(target);
  const ordered: Table[] = [];
  const left = new Map(tables.map((table) => [table.name, table]));
  while (left.size > 0) {
    const ready = [...left.values()].filter(({ name }) => !rows.some(({ of, to }) => of === name && left.has(to)));
    if (ready.length === 0) throw new Error(`the tables ${[...left.keys()].join(', ')} refer to each other`);
    for (const table of ready) left.delete(table.name);
    ordered.push(...ready);
  }
  return ordered;
}

/** @throws Error if the databases do not have the same tables and columns */
export function assertSameTables(source: readonly Table[], target: readonly Table[]): void {
  const described = (tables: readonly Table[]) =>
    tables.map(({ name, columns }) => `${name}(${columns.join(', ')})`).sort();
  const [ofSource, ofTarget] = [described(source), described(target)];
  const different = [
    ...ofSource.filter((table) => !ofTarget.includes(table)),
    ...ofTarget.filter((table) => !ofSource.includes(table)),
  ];
  if (different.length > 0) throw new Error(`the databases have different tables: ${different.join('; ')}`);
}
