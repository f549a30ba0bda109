/** Servers behind a real PgBouncer. */
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { sql } from 'kysely';
import { pythonCode } from '../../../../testing/echo-service.ts';
import {
  installPgBouncer,
  LACKS_PGBOUNCER,
  type PgBouncerSettings,
  startPgBouncer,
} from '../../../../testing/postgres/pgbouncer.ts';
import { createEmptyDatabase, SOCKETS, urlOf } from '../../../../testing/postgres/postgres-server.ts';
import { listens, NEEDS_POSTGRES } from '../../../../testing/servers.ts';
import { WholeServers } from '../../../../testing/whole-servers.ts';
import { openNotifications } from '../notifications.ts';
import { openDatabase } from '../open-database.ts';

const postgres = process.env[SOCKETS] ?? '';

describe('PgBouncer', { skip: NEEDS_POSTGRES || LACKS_PGBOUNCER }, () => {
  before(installPgBouncer);

  it('PgBouncer carries whole servers in its session mode: a sandbox of one runs code sent to the other', async () => {
    await createEmptyDatabase(postgres, 'bounced');
    await using bouncer = await startPgBouncer(postgres, { pool_mode: 'session' });
    await using servers = await WholeServers.openFor(urlOf(bouncer.sockets, 'bounced'), 2);
    const id = await servers.readySandbox();
    // Each connection prepares the statements of a run once, and uses them again.
    for (let count = 0; count < 8; count += 1) {
      const { status, body } = await servers.call(
        count,
        'POST',
        `/v1/sandboxes/${id}/code/runs`,
        pythonCode(),
        `run ${count}`,
      );
      assert.equal(status, 200, JSON.stringify(body));
    }
  });

  it('PgBouncer keeps the limits of time and the level of isolation of each connection in its session mode', async () => {
    await createEmptyDatabase(postgres, 'bounced_limits');
    await using bouncer = await startPgBouncer(postgres, { pool_mode: 'session' });
    await using db = await openDatabase(urlOf(bouncer.sockets, 'bounced_limits'));
    const { rows } = await sql`
      select current_setting('statement_timeout') as statement, current_setting('transaction_isolation') as isolation,
        current_setting('idle_in_transaction_session_timeout') as idle`.execute(db);
    assert.deepEqual(rows, [{ statement: '30s', isolation: 'read committed', idle: '5s' }]);
  });

  it('PgBouncer carries notifications in its session mode', async () => {
    await createEmptyDatabase(postgres, 'bounced_notifications');
    await using bouncer = await startPgBouncer(postgres, { pool_mode: 'session' });
    await using db = await openDatabase(urlOf(bouncer.sockets, 'bounced_notifications'));
    const [one, other] = [openNotifications(db), openNotifications(db)];
    try {
      const heard: string[] = [];
      other.subscribe('sandbox', { heard: (id) => heard.push(id), missed: () => undefined });
      await Promise.all([listens(one), listens(other)]);
      // A connection that is lost is made again, and loses what is sent meanwhile.
      const isHeard = () => {
        one.send('sandbox', 'sbx_1');
        return heard.includes('sbx_1');
      };
      await eventually(isHeard, { because: 'one server hears what the other sends' });
    } finally {
      await Promise.all([one.close(), other.close()]);
    }
  });

  it('PgBouncer lets a server start in its session mode alone: otherwise the error names the setting', async () => {
    await createEmptyDatabase(postgres, 'bounced_modes');
    const open = async (pool_mode: PgBouncerSettings['pool_mode']) => {
      await using bouncer = await startPgBouncer(postgres, { pool_mode });
      const db = await openDatabase(urlOf(bouncer.sockets, 'bounced_modes'));
      await db.destroy();
    };
    await open('session');
    const refusal = /the pooler at .* gives the session of one connection to another; .*pool_mode = session/;
    await assert.rejects(open('transaction'), refusal);
    await assert.rejects(open('statement'), refusal);
  });

  it('with one connection for a server is refused, with the setting that permits more', async () => {
    await createEmptyDatabase(postgres, 'bounced_size');
    // PgBouncer itself would let the second connection wait for ever.
    await using bouncer = await startPgBouncer(postgres, { pool_mode: 'session', default_pool_size: 1 });
    let refusal = '';
    openDatabase(urlOf(bouncer.sockets, 'bounced_size')).catch((error: Error) => {
      refusal = error.message;
    });
    await eventually(() => refusal !== '', { because: 'the server gives up to wait for a second connection' });
    assert.match(refusal, /gives one connection to PostgreSQL, but no second one .*default_pool_size/);
  });
});
