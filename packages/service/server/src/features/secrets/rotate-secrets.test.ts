/** Rotations while other servers of the database rotate and write secrets too. */
import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { sql } from 'kysely';
import { openSecretServers, type SecretServer } from '../../../testing/secrets.ts';
import { NEEDS_POSTGRES } from '../../../testing/servers.ts';
import type { RequestAudit } from '../../platform/audit-log/request-audit.ts';

let open: Awaited<ReturnType<typeof openSecretServers>>;
let first: SecretServer;
let second: SecretServer;
beforeEach(async () => {
  open = await openSecretServers(2);
  [first, second] = open.servers as [SecretServer, SecretServer];
});
afterEach(() => open[Symbol.asyncDispose]());

/** Requires that both servers, and one that starts now, decrypt exactly these values. */
async function assertValues(...expected: string[]): Promise<void> {
  for (const keys of [first.keys, second.keys, open.newKeys()]) {
    assert.deepEqual(await first.values(keys), expected.toSorted());
  }
}

describe('rotations by two servers of one database', () => {
  it('rotations by two servers of one database lose no value when one server rotates after the other', async () => {
    await first.create('of the first');
    await second.create('of the second');
    for (const server of [first, second, first]) {
      assert.equal(await server.rotate(), 2);
      assert.equal(open.countKeys(), 1);
      // A server that starts now: what the others decrypt makes them read the file.
      assert.deepEqual(await first.values(open.newKeys()), ['of the first', 'of the second']);
    }
    await assertValues('of the first', 'of the second');
  });

  it('rotations by two servers of one database lose no value when both rotate at once, and leave the newest key alone', async () => {
    const values = Array.from({ length: 150 }, (_, index) => `value ${index}`);
    for (const value of values) await first.create(value);
    await Promise.all([first.rotate(), second.rotate(), first.rotate()]);
    await assertValues(...values);
    assert.equal(open.countKeys(), 1);
  });

  it('rotations by two servers of one database delete no key that a row names, if the next rotation begins before the end of the last one', async () => {
    await first.create('value');
    const othersThanCurrent = first.keys.othersThanCurrent.bind(first.keys);
    first.keys.othersThanCurrent = () => {
      second.keys.renew();
      return othersThanCurrent();
    };
    await first.rotate();
    assert.equal(open.countKeys(), 2);
    await assertValues('value');
    assert.equal(await second.rotate(), 1);
    assert.equal(open.countKeys(), 1);
    await assertValues('value');
  });
});

describe('a secret that is written during the rotation of another server', () => {
  it('a secret that is written during the rotation of another server is encrypted with a key that is kept, if the server is paused before it writes the row', async () => {
    await first.create('earlier');
    first.writing.isPaused = true;
    const created = first.create('created');
    await first.writing.stands.promise;
    assert.equal(await second.rotate(), 1);
    first.writing.goOn.resolve();
    await created;
    await assertValues('earlier', 'created');
  });

  it('a secret that is written during the rotation of another server is encrypted with a key that is kept, if the server is paused before it changes the row', async () => {
    const { id } = await first.create('earlier');
    first.writing.isPaused = true;
    const changed = first.update(id, 'changed');
    await first.writing.stands.promise;
    await second.rotate();
    first.writing.goOn.resolve();
    await changed;
    await assertValues('changed');
  });

  describe('with its row not yet committed', { skip: NEEDS_POSTGRES }, () => {
    let goOn: PromiseWithResolvers<void>;
    let written: PromiseWithResolvers<void>;
    let audit: RequestAudit;
    beforeEach(() => {
      [goOn, written] = [Promise.withResolvers(), Promise.withResolvers()];
      const append = async () => {
        written.resolve();
        await goOn.promise;
      };
      // Sound: the service calls nothing else.
      audit = { append } as Partial<RequestAudit> as RequestAudit;
    });

    const isWaiting = async () => {
      const { rows } = await sql`
        select 1 from pg_locks join pg_database on pg_database.oid = database
        where datname = current_database() and locktype = 'advisory' and not granted`.execute(second.db);
      return rows.length > 0;
    };

    it('a secret that is written during the rotation of another server with its row not yet committed makes the rotation wait, which then encrypts it again', async () => {
      const created = first.create('created', audit);
      await written.promise;
      const rotated = second.rotate();
      await Promise.race([rotated, eventually(isWaiting, { because: 'the rotation waits for the row' })]);
      goOn.resolve();
      await created;
      assert.equal(await rotated, 1);
      await assertValues('created');
      assert.equal(open.countKeys(), 1);
    });

    it('a secret that is written during the rotation of another server with its row not yet committed is refused once PostgreSQL has ended its transaction, and keeps its earlier value', async () => {
      const { id } = await first.create('earlier');
      const changed = assert.rejects(first.update(id, 'changed', audit));
      await written.promise;
      const rotated = second.rotate();
      await Promise.race([rotated, eventually(isWaiting, { because: 'the rotation waits for the row' })]);
      // As PostgreSQL does to a transaction that has been idle for 30 s.
      await sql`
        select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and state = 'idle in transaction'`.execute(second.db);
      assert.equal(await rotated, 1);
      goOn.resolve();
      await changed;
      await assertValues('earlier');
      assert.equal(open.countKeys(), 1);
    });
  });
});
