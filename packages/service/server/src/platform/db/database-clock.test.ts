import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DummyDriver, Kysely, PostgresAdapter, PostgresIntrospector, PostgresQueryCompiler, sql } from 'kysely';
import { DATABASE_KIND, openTestDatabase } from '../../../testing/test-database.ts';
import type { Database, Tables } from './database.ts';
import { DatabaseClock, openDatabaseClock } from './database-clock.ts';

const skip = DATABASE_KIND === 'sqlite' && 'takes PostgreSQL: `npm test -- postgres`';

async function timeOf(db: Database): Promise<number> {
  const { rows } = await sql<{
    at: number;
  }>`select (extract(epoch from clock_timestamp()) * 1000)::float8 as at`.execute(db);
  return rows[0]?.at ?? assert.fail();
}

/** Requires the clock's time to lie between two times that the database gives around it, give or take its own error. */
async function agrees(clock: DatabaseClock, db: Database, error: number): Promise<void> {
  const before = await timeOf(db);
  const now = clock.now();
  const after = await timeOf(db);
  assert.ok(now >= before - error - 1 && now <= after + error + 1, `${before} ≤ ${now} ≤ ${after}, ± ${error}`);
}

/** A PostgreSQL database whose time passes only while it is asked: how long each request and each answer takes. */
class SlowDatabase {
  now = 1_000_000;
  asked = 0;
  readonly db: Database;

  constructor(...latencies: readonly (readonly [request: number, answer: number])[]) {
    const executeQuery = async () => {
      const [request, answer] = latencies[this.asked++] ?? assert.fail('one comparison too many');
      this.now += request;
      const rows = [{ at: this.now }];
      this.now += answer;
      return { rows };
    };
    class Driver extends DummyDriver {
      override async acquireConnection() {
        return { ...(await super.acquireConnection()), executeQuery } as never;
      }
    }
    this.db = new Kysely<Tables>({
      dialect: {
        createDriver: () => new Driver(),
        createAdapter: () => new PostgresAdapter(),
        createIntrospector: (db) => new PostgresIntrospector(db),
        createQueryCompiler: () => new PostgresQueryCompiler(),
      },
    });
  }

  readonly elapsed = () => this.now - 900_000;
}

describe('the clock of servers', () => {
  it('the clock of servers is that of PostgreSQL, however wrong the host is, and counts on between comparisons', {
    skip,
  }, async () => {
    await using db = await openTestDatabase();
    // Clocks of hosts that are ten minutes slow and fast, and were started at other times.
    for (const skew of [-600_000, 0, 600_000]) {
      const elapsed = () => performance.now() + skew;
      const clock = new DatabaseClock(db, elapsed);
      assert.throws(() => clock.now(), /never compared/);
      const begun = elapsed();
      await clock.sync();
      await agrees(clock, db, elapsed() - begun);
    }
  });

  it('the clock of servers is compared again by a starting server, as long as the database answers too slowly', async () => {
    const database = new SlowDatabase([200, 1_600], [1_200, 100], [2, 1]);
    const clock = await openDatabaseClock(database.db, database.elapsed);
    assert.equal(database.asked, 3);
    assert.ok(Math.abs(clock.now() - database.now) <= 2, `${clock.now()} is not ${database.now}`);
  });

  it('the clock of servers lets a server start although the database never answers quickly', async () => {
    const slow = [400, 400] as const;
    const database = new SlowDatabase(slow, slow, slow, slow);
    await openDatabaseClock(database.db, database.elapsed);
  });

  it('the clock of servers stays as right as it was after a slow comparison', async () => {
    const database = new SlowDatabase([1, 1], [0, 900], [900, 0]);
    const clock = new DatabaseClock(database.db, database.elapsed);
    for (let left = 3; left > 0; left -= 1) {
      await clock.sync();
      assert.ok(Math.abs(clock.now() - database.now) <= 1, `${clock.now()} is not ${database.now}`);
    }
  });

  it('the clock of servers stays right after a slow comparison although the clocks run at different speeds', async () => {
    for (const speed of [1 - 1 / 5000, 1 + 1 / 5000]) {
      const database = new SlowDatabase([1, 1], [0, 2_000], [2_000, 0]);
      const clock = new DatabaseClock(database.db, () => (database.now - 900_000) * speed);
      for (let left = 3; left > 0; left -= 1) {
        await clock.sync();
        // At most the drift of a minute at 1/1000, and of the comparison itself.
        assert.ok(Math.abs(clock.now() - database.now) <= 65, `${clock.now()} is not ${database.now}`);
        database.now += 60_000;
      }
    }
  });

  it('the clock of servers keeps its time when a comparison takes too long to be exact', { skip }, async () => {
    await using db = await openTestDatabase();
    let stalled = 0;
    let looks = 0;
    // Stands still by a minute during the second comparison, as a process does that is suspended.
    const elapsed = () => {
      looks += 1;
      if (looks === 5) stalled = 60_000;
      return performance.now() + stalled;
    };
    const clock = new DatabaseClock(db, elapsed);
    await clock.sync();
    const before = clock.now();
    await clock.sync();
    // The minute is counted but for its drift. A comparison in the middle of it would have halved it.
    assert.ok(clock.now() - before >= 60_000 - 60_000 / 1000);
    await clock.sync();
    assert.ok(clock.now() - before < 60_000);
  });
});
