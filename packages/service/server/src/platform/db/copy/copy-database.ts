/** Copies all rows from SQLite to PostgreSQL, in one transaction. */
import type { CopyProgress, CopyReport } from '@cloche/protocol';
import { sql, type Transaction } from 'kysely';
import type { Database, Tables } from '../database.ts';
import { migrate } from '../migrate.ts';
import { advanceCounters, countRows, insertRows, readPostgresRows, readSqliteRows } from './copy-rows.ts';
import { RowDigest } from './row-digest.ts';
import { assertSameTables, inOrderOfReferences, listTables, type Table } from './table-list.ts';

export type OnProgress = (progress: CopyProgress) => void;

/** The databases cannot be copied. The message names the remedy. */
export class CopyRefusedError extends Error {
  override readonly name = 'CopyRefusedError';
}

/**
 * Copies every row in one transaction, which is committed only if each table of the target then has as many rows as its
 * source and the same sum of hashes. After a failure the target has no rows. If the target already has exactly these
 * rows, nothing is changed. Leases of servers are not copied.
 *
 * @param source a SQLite database that no server uses
 * @throws CopyRefusedError if a server uses the target, or the target has other rows
 */
export async function copyDatabase(source: Database, target: Database, onProgress: OnProgress): Promise<CopyReport> {
  await migrate(source);
  await migrate(target);
  const [unordered, ofTarget] = await Promise.all([listTables(source), listTables(target)]);
  assertSameTables(unordered, ofTarget);
  const tables = await inOrderOfReferences(target, unordered);
  const total = (await Promise.all(tables.map((table) => countRows(source, table)))).reduce(
    (sum, rows) => sum + rows,
    0,
  );
  return target.transaction().execute(async (tx) => {
    await refuseServers(tx, tables);
    const isEmpty = await hasNoRows(tx, tables);
    const copied = await copyTables({ source, tx, tables, total, onProgress, isEmpty });
    await verify({ tx, tables, total, onProgress, copied, isEmpty });
    if (isEmpty) await advanceCounters(tx);
    const report = tables.map((table, index) => {
      const { rows = 0, text: digest = '' } = copied[index] ?? {};
      return { name: table.name, rows, digest };
    });
    return { copied: isEmpty, rows: total, tables: report };
  });
}

/** Throws if a server uses the target. Servers that start during the copy wait for it, or fail to start. */
async function refuseServers(tx: Transaction<Tables>, tables: readonly Table[]): Promise<void> {
  const names = [...tables.map(({ name }) => name), 'server_leases'].sort().map((name) => sql.table(name));
  await sql`lock table ${sql.join(names)} in exclusive mode`.execute(tx);
  const { rows } = await sql<{ seconds: number }>`
    select ceil((max(lease_until) - extract(epoch from clock_timestamp()) * 1000) / 1000)::integer as seconds
    from server_leases`.execute(tx);
  const seconds = rows[0]?.seconds ?? 0;
  if (seconds <= 0) return;
  throw new CopyRefusedError(
    `a server uses the target, or used it a moment ago; stop it, and copy again after ${seconds} seconds`,
  );
}

async function hasNoRows(tx: Transaction<Tables>, tables: readonly Table[]): Promise<boolean> {
  for (const table of tables) if ((await countRows(tx, table)) > 0) return false;
  return true;
}

interface Copying {
  readonly source: Database;
  readonly tx: Transaction<Tables>;
  readonly tables: readonly Table[];
  readonly total: number;
  readonly onProgress: OnProgress;
  /** Whether the target has no rows. Otherwise the rows of the source are only read, for the comparison. */
  readonly isEmpty: boolean;
}

async function copyTables({ source, tx, tables, total, onProgress, isEmpty }: Copying): Promise<RowDigest[]> {
  const digests: RowDigest[] = [];
  let rows = 0;
  for (const table of tables) {
    const digest = new RowDigest(table);
    for await (const batch of readSqliteRows(source, table)) {
      for (const row of batch) digest.add(row);
      if (isEmpty) await insertRows(tx, table, batch);
      rows += batch.length;
      onProgress({ step: 'copy', table: table.name, rows, total });
    }
    digests.push(digest);
  }
  return digests;
}

/** @throws Error if a table of the target has not exactly the rows of the source */
async function verify({
  tx,
  tables,
  total,
  onProgress,
  copied,
  isEmpty,
}: Omit<Copying, 'source'> & { readonly copied: readonly RowDigest[] }): Promise<void> {
  let rows = 0;
  for (const [index, table] of tables.entries()) {
    const digest = new RowDigest(table);
    for await (const batch of readPostgresRows(tx, table)) {
      for (const row of batch) digest.add(row);
      rows += batch.length;
      onProgress({ step: 'verify', table: table.name, rows, total });
    }
    if (copied[index]?.equals(digest)) continue;
    if (isEmpty) throw new Error(`the table ${table.name} was not copied exactly; nothing was changed, so copy again`);
    throw new CopyRefusedError(
      `the target has other rows in the table ${table.name}; name a database without rows, such as one that createdb makes`,
    );
  }
}
