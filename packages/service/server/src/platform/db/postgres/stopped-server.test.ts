import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { it } from 'node:test';
import { sql } from 'kysely';
import { DATABASE_KIND, testDatabaseSettings } from '../../../../testing/test-database.ts';
import { openDatabase } from '../open-database.ts';

const PROGRAM = join(import.meta.dirname, '../../../../testing/killed-transaction.ts');
const skip = DATABASE_KIND === 'sqlite' && 'takes PostgreSQL: `npm test -- postgres`';

it('a server that stands still in the middle of a transaction holds its rows for far less than a request may wait', {
  skip,
}, async () => {
  const { CLOCHE_DATABASE_URL: url = '' } = await testDatabaseSettings();
  const server = spawn(process.execPath, [PROGRAM, url], { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    await once(server.stdout, 'data');
    server.kill('SIGSTOP');
    await using db = await openDatabase(url);
    const limit = await sql<{ ms: number }>`
      select extract(epoch from current_setting('statement_timeout')::interval) * 1000 as ms`.execute(db);
    const before = performance.now();
    // The stopped server has inserted a row with this id.
    await db.insertInto('orgs').values({ id: 'unfinished_1', name: 'unfinished_1', created_at: 1 }).execute();
    const waitedMs = performance.now() - before;
    const mayWaitMs = limit.rows[0]?.ms ?? 0;
    assert.ok(waitedMs < mayWaitMs / 2, `${waitedMs} of ${mayWaitMs} ms`);
  } finally {
    server.kill('SIGKILL');
    await once(server, 'exit');
  }
});
