/** The database that every simulation begins with. */
import { DatabaseSync } from 'node:sqlite';
import { sql } from 'kysely';
import { ORG, seed } from '../seeded-organizations.ts';
import { openTestDatabase } from '../test-database.ts';
import { MOST_SANDBOXES, MOST_WORKSPACE_RUNS } from './invariants.ts';

/** Returns the contents of a database with all tables, one organization and its limit of live sandboxes. */
export async function prepareImage(): Promise<Uint8Array> {
  const db = await openTestDatabase('sqlite');
  const { rows } = await sql<{ sql: string }>`
    select sql from sqlite_schema where sql is not null and name not like 'sqlite_%' order by rowid`.execute(db);
  await seed(db);
  const tables = await Promise.all(
    (['orgs', 'projects'] as const).map(async (name) => ({
      name,
      rows: await db.selectFrom(name).selectAll().execute(),
    })),
  );
  await db.destroy();
  const copy = new DatabaseSync(':memory:');
  for (const { sql: text } of rows) copy.exec(text);
  for (const { name, rows: all } of tables) {
    for (const row of all as unknown as Record<string, string | number | null>[]) {
      const columns = Object.keys(row);
      const insert = `insert into ${name} (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`;
      copy.prepare(insert).run(...Object.values(row));
    }
  }
  copy
    .prepare('update orgs set quotas = ? where id = ?')
    .run(JSON.stringify({ liveSandboxes: MOST_SANDBOXES, concurrentWorkspaceRuns: MOST_WORKSPACE_RUNS }), ORG);
  copy.prepare('update projects set limited = 1 where org_id = ?').run(ORG);
  const image = copy.serialize();
  copy.close();
  return image;
}
