import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { sql } from 'kysely';
import { migrate } from './migrate.ts';
import { openDatabase } from './open-database.ts';
import { prepareQuery } from './prepared-query.ts';
import { type Transaction, Transactions } from './transactions.ts';

async function openOrgs(url = 'sqlite::memory:') {
  const db = await openDatabase(url);
  await migrate(db);
  const insert = prepareQuery(db, ({ id }: { id: string }) =>
    db.insertInto('orgs').values({ id, name: id, created_at: 1 }),
  );
  const all = prepareQuery(db, (_: Record<string, never>) => db.selectFrom('orgs').select('id').orderBy('id'));
  const ids = async (tx?: Transaction) => (await all({}, tx)).rows.map(({ id }) => id);
  return { db, insert, ids, transactions: new Transactions(db), [Symbol.asyncDispose]: () => db.destroy() };
}

describe('a transaction', () => {
  it('a transaction writes everything or nothing, by prepared queries and by others', async () => {
    await using orgs = await openOrgs();
    const write = (name: string, fail: boolean) =>
      orgs.transactions.run(async (tx) => {
        await orgs.insert({ id: `${name}_1` }, tx);
        await tx.db
          .insertInto('orgs')
          .values({ id: `${name}_2`, name, created_at: 1 })
          .execute();
        assert.deepEqual((await orgs.ids(tx)).filter((id) => id.startsWith(name)).length, 2);
        if (fail) throw new Error('undone');
        return name;
      });
    await assert.rejects(write('undone', true), /undone/);
    assert.equal(await write('kept', false), 'kept');
    assert.deepEqual(await orgs.ids(), ['kept_1', 'kept_2']);
  });

  it('a transaction joins the transaction that it is given, and then ends with it', async () => {
    await using orgs = await openOrgs();
    const insert = (id: string, tx?: Transaction) => orgs.transactions.run((own) => orgs.insert({ id }, own), tx);
    const outer = orgs.transactions.run(async (tx) => {
      await insert('inner', tx);
      throw new Error('undone');
    });
    await assert.rejects(outer, /undone/);
    await insert('alone');
    assert.deepEqual(await orgs.ids(), ['alone']);
  });

  it('a transaction keeps queries of others out, which wait for its end and are not undone with it', async () => {
    await using orgs = await openOrgs();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 40 }, async (_, index) => {
        if (index % 2 === 0) return orgs.insert({ id: `single_${index}` });
        return orgs.transactions.run(async (tx) => {
          await orgs.insert({ id: `first_${index}` }, tx);
          await setImmediate();
          await orgs.insert({ id: `second_${index}` }, tx);
          if (index % 4 === 1) throw new Error('undone');
        });
      }),
    );
    assert.equal(outcomes.filter(({ status }) => status === 'rejected').length, 10);
    const ids = await orgs.ids();
    assert.equal(ids.filter((id) => id.startsWith('single')).length, 20);
    assert.deepEqual(
      ids.filter((id) => id.startsWith('first')).map((id) => id.slice('first'.length)),
      ids.filter((id) => id.startsWith('second')).map((id) => id.slice('second'.length)),
    );
    assert.equal(ids.length, 20 + 2 * 10);
  });

  it('a transaction refuses a query in its callback that does not use it, which would wait for ever', async () => {
    await using orgs = await openOrgs();
    const queries = [
      () => orgs.insert({ id: 'x' }),
      () => orgs.db.selectFrom('orgs').selectAll().execute(),
      () => orgs.transactions.run((tx) => orgs.insert({ id: 'x' }, tx)),
    ];
    for (const query of queries) {
      await assert.rejects(
        orgs.transactions.run(async (tx) => {
          await orgs.insert({ id: 'undone' }, tx);
          await query();
        }),
        /pass the transaction to the query/,
      );
    }
    assert.deepEqual(await orgs.ids(), []);
  });

  it('a transaction lets what was started in its callback go on after its end', async () => {
    await using orgs = await openOrgs();
    let later: Promise<unknown> | undefined;
    await orgs.transactions.run(async (tx) => {
      await orgs.insert({ id: 'a' }, tx);
      later = setImmediate().then(() => orgs.insert({ id: 'b' }));
    });
    await later;
    assert.deepEqual(await orgs.ids(), ['a', 'b']);
  });

  it('a transaction cannot be used after its end', async () => {
    await using orgs = await openOrgs();
    let ended: Transaction | undefined;
    await orgs.transactions.run(async (tx) => {
      ended = tx;
    });
    await assert.rejects(orgs.insert({ id: 'late' }, ended), /has ended/);
    assert.throws(() => ended?.db, /has ended/);
    assert.deepEqual(await orgs.ids(), []);
  });

  it('a transaction executes no query of its database object after its end', async () => {
    await using orgs = await openOrgs();
    const ended = await orgs.transactions.run(async ({ db }) => {
      await db.insertInto('orgs').values({ id: 'kept', name: 'kept', created_at: 1 }).execute();
      return { db };
    });
    const late = ended.db.insertInto('orgs').values({ id: 'late', name: 'late', created_at: 1 });
    await assert.rejects(late.execute(), /has ended/);
    assert.deepEqual(await orgs.ids(), ['kept']);
  });

  it('rolls back, and lets others begin, when its commit fails', async () => {
    await using orgs = await openOrgs();
    const failing = orgs.transactions.run(async ({ db }) => {
      await sql`pragma defer_foreign_keys = on`.execute(db);
      await db
        .insertInto('projects')
        .values({ id: 'prj_1', org_id: 'none', name: 'p', name_key: 'p', is_default: 0, created_at: 1, updated_at: 1 })
        .execute();
    });
    await assert.rejects(failing, /FOREIGN KEY/);
    await orgs.insert({ id: 'next' });
    assert.deepEqual(await orgs.ids(), ['next']);
    assert.deepEqual(await orgs.db.selectFrom('projects').selectAll().execute(), []);
  });

  it('a transaction calls what follows its commit once, in order, and not after a rollback', async () => {
    await using orgs = await openOrgs();
    const called: string[] = [];
    const run = (name: string, fail: boolean) =>
      orgs.transactions.run(async (tx) => {
        tx.afterCommit(() => called.push(`${name} 1`));
        tx.afterCommit(() => called.push(`${name} 2`));
        await orgs.insert({ id: name }, tx);
        assert.deepEqual(called, []);
        if (fail) throw new Error('undone');
      });
    await assert.rejects(run('undone', true), /undone/);
    await run('kept', false);
    assert.deepEqual(called, ['kept 1', 'kept 2']);
  });

  it('a transaction leaves nothing when its process is killed, and everything after its commit', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'cloche-transactions-'));
    try {
      const url = `sqlite:${join(folder, 'x.db')}`;
      const child = spawn(
        process.execPath,
        [join(import.meta.dirname, '../../../testing/killed-transaction.ts'), url],
        {
          stdio: ['ignore', 'pipe', 'inherit'],
        },
      );
      await once(child.stdout, 'data');
      child.kill('SIGKILL');
      await once(child, 'exit');
      await using orgs = await openOrgs(url);
      assert.deepEqual(await orgs.ids(), ['committed_1', 'committed_2']);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
