import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { sql } from 'kysely';
import { migrate } from './migrate.ts';
import { openDatabase } from './open-database.ts';

describe('openDatabase', () => {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-db-'));
  after(() => rmSync(folder, { recursive: true, force: true }));

  it('openDatabase makes the file and its folder, and migrates it any number of times', async () => {
    const db = await openDatabase(`sqlite:${join(folder, 'deep', 'cloche.db')}`);
    await migrate(db);
    await migrate(db);
    const { rows } = await sql<{ journal_mode: string }>`pragma journal_mode`.execute(db);
    assert.equal(rows[0]?.journal_mode, 'wal');
    assert.deepEqual(await db.selectFrom('sandboxes').selectAll().execute(), []);
    await db.destroy();
  });

  it('openDatabase refuses a database of another kind without repeating its password', async () => {
    await assert.rejects(openDatabase('mysql://user:secret@host/db'), (error: Error) => {
      assert.match(error.message, /"mysql:" databases are not supported/);
      assert.doesNotMatch(error.message, /secret/);
      return true;
    });
    await assert.rejects(openDatabase('sqlite:relative.db'), /absolute path/);
  });

  it('openDatabase runs transactions that are started together one after another', async () => {
    const db = await openDatabase('sqlite::memory:');
    await migrate(db);
    const insert = (id: string, fail: boolean) =>
      db.transaction().execute(async (trx) => {
        await trx.insertInto('orgs').values({ id, name: id, created_at: 1 }).execute();
        await new Promise((resolve) => setImmediate(resolve));
        if (fail) throw new Error('undone');
      });
    const results = await Promise.allSettled(
      Array.from({ length: 20 }, (_, index) => insert(`org_${index}`, index % 2 === 1)),
    );
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 10);
    const { count } = await db
      .selectFrom('orgs')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    assert.equal(count, 10);
    await db.destroy();
  });

  it('openDatabase lets each organization have one default project and each sandbox one live default context a language', async () => {
    const db = await openDatabase('sqlite::memory:');
    await migrate(db);
    await db.insertInto('orgs').values({ id: 'org_1', name: 'one', created_at: 1 }).execute();
    const project = (id: string, is_default: number) =>
      db
        .insertInto('projects')
        .values({ id, org_id: 'org_1', name: id, name_key: id, is_default, created_at: 1, updated_at: 1 })
        .execute();
    await project('prj_1', 1);
    await project('prj_2', 0);
    await project('prj_3', 0);
    await assert.rejects(project('prj_4', 1), /UNIQUE/);
    await db.destroy();
  });
});
