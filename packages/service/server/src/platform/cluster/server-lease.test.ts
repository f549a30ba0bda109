import { describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { sql } from 'kysely';
import { openWorld, SandboxesWorld } from '../../../testing/sandboxes.ts';
import { NEEDS_POSTGRES } from '../../../testing/servers.ts';
import { SILENT } from '../../../testing/silent.ts';
import { DatabaseClock } from '../db/database-clock.ts';
import { openOwnConnection } from '../db/postgres-database.ts';
import { HeldClaims } from '../idempotency/held-claims.ts';
import { IdempotencyRepository } from '../idempotency/idempotency-repository.ts';
import { ServerLease } from './server-lease.ts';

/** More statements than a server has connections. */
const STUCK = 40;

describe('the lease of a server', { skip: NEEDS_POSTGRES }, () => {
  it('the lease of a server is renewed although all other connections of the server are in use', async () => {
    await using world = await openWorld(SandboxesWorld);
    const { db } = world;
    const own = openOwnConnection(db, 3_000);
    await using _ = { [Symbol.asyncDispose]: () => own.close() };
    const clock = new DatabaseClock(db);
    await clock.sync();
    const serverId = 'srv_lease';
    const deps = { db, leaseDb: own.db, records: new IdempotencyRepository(db), held: new HeldClaims(), clock };
    const files = { removeExpired: async () => undefined };
    const lease = new ServerLease({ ...deps, files, serverId, leaseMs: 600, version: '1', log: SILENT });
    await lease.start();
    const untilOf = async () => {
      const row = own.db.selectFrom('server_leases').select('lease_until').where('id', '=', serverId);
      return (await row.executeTakeFirstOrThrow()).lease_until;
    };
    // A lock that nobody gives back until the end of the test.
    const holder = openOwnConnection(db, 60_000);
    await sql`select pg_advisory_lock(61)`.execute(holder.db);
    const stuck = Array.from({ length: STUCK }, () =>
      sql`select pg_advisory_lock_shared(61), pg_advisory_unlock_shared(61)`.execute(db).catch(() => undefined),
    );
    const before = await untilOf();
    await eventually(async () => (await untilOf()) > before + 600, { because: 'the lease is renewed' });
    await holder.close();
    await Promise.all(stuck);
    await lease.release();
  });
});
