import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sql } from 'kysely';
import { DATABASE_KIND, openTestDatabase } from '../../testing/test-database.ts';
import { systemClock } from '../base/clock.ts';
import type { Database } from './database.ts';
import { DatabaseClock, openClock } from './database-clock.ts';

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

describe('the clock of servers', () => {
  it('is that of the host for SQLite', async () => {
    await using db = await openTestDatabase('sqlite');
    assert.equal(await openClock(db), systemClock);
  });

  it('is that of PostgreSQL, however wrong the host is, and counts on between comparisons', { skip }, async () => {
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

  it('keeps its time when a comparison takes too long to be exact', { skip }, async () => {
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
    // The minute is counted, which a comparison in the middle of it would have halved.
    assert.ok(clock.now() - before >= 60_000);
    await clock.sync();
    assert.ok(clock.now() - before < 60_000);
  });
});
