import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { sql } from 'kysely';
import { cutNotifications, DATABASE_KIND, openBeside, openTestDatabase } from '../../../testing/test-database.ts';
import type { Database } from './database.ts';
import { NO_NOTIFICATIONS, type Notifications, openNotifications, sharedChanges } from './notifications.ts';

/** A wait so long that a test that depends on it fails by its own time limit. */
const NEVER_MS = 600_000;

const skip = DATABASE_KIND === 'sqlite' && 'takes PostgreSQL: `npm test -- postgres`';

interface TestServer {
  readonly notifications: Notifications;
  readonly heard: string[];
  missed: number;
}

describe('notifications between servers', { skip }, () => {
  let db: Database;
  let beside: Database;
  let servers: TestServer[];

  beforeEach(async () => {
    db = await openTestDatabase();
    beside = await openBeside(db);
    servers = [open(db), open(beside)];
    await connected();
  });
  afterEach(async () => {
    for (const { notifications } of servers) await notifications.close();
    await beside.destroy();
    await db.destroy();
  });

  const open = (own: Database): TestServer => {
    const notifications = openNotifications(own);
    const server: TestServer = { notifications, heard: [], missed: 0 };
    const missed = () => {
      server.missed += 1;
    };
    notifications.subscribe('sandbox', { heard: (id) => server.heard.push(id), missed });
    return server;
  };
  const one = () => servers[0] ?? assert.fail();
  const other = () => servers[1] ?? assert.fail();
  const connected = (times = 1) =>
    eventually(() => servers.every(({ missed }) => missed >= times), { because: 'all servers listen' });

  it('notifications between servers reach the other servers, each id once however often it was sent in the meantime', async () => {
    const ids = Array.from({ length: 500 }, (_, index) => `sbx_${index}`);
    for (const id of [...ids, ...ids]) one().notifications.send('sandbox', id);
    await eventually(() => other().heard.length >= ids.length, { because: 'all were heard' });
    assert.deepEqual(other().heard.toSorted(), ids.toSorted());
  });

  it('say which kind of resource changed', async () => {
    one().notifications.send('workspace_run', 'wrn_1');
    one().notifications.send('sandbox', 'sbx_1');
    await eventually(() => other().heard.includes('sbx_1'), { because: 'the sandbox was heard' });
    assert.deepEqual(other().heard, ['sbx_1']);
  });

  it('notifications between servers go on after the connection was cut, and say that some may have been missed', async () => {
    for (const round of [1, 2, 3]) {
      await cutNotifications(db);
      await connected(1 + round);
      one().notifications.send('sandbox', `sbx_${round}`);
      await eventually(() => other().heard.includes(`sbx_${round}`), { because: 'a notification was heard' });
    }
  });

  it('wake what waits on another server for the same resource', async () => {
    const [own, others] = servers.map(({ notifications }) =>
      sharedChanges<'sbx_1' | 'sbx_2'>('sandbox', notifications, NEVER_MS),
    );
    using watch = others?.watch('sbx_1');
    using unchanged = others?.watch('sbx_2');
    const next = unchanged?.next();
    const changed = watch?.next();
    own?.notify('sbx_1');
    await changed;
    assert.equal(await Promise.race([next, 'waits']), 'waits');
  });

  it('wake everything that waits when the connection is there again, and not before', async () => {
    const changes = sharedChanges<'sbx_1'>('sandbox', other().notifications, NEVER_MS);
    using watch = changes.watch('sbx_1');
    const changed = watch.next();
    assert.equal(await Promise.race([changed, 'waits']), 'waits');
    await cutNotifications(db);
    await changed;
  });

  it('notifications between servers end what waits after a time without them, because some may have been missed', async () => {
    await other().notifications.close();
    const changes = sharedChanges<'sbx_1'>('sandbox', other().notifications, 1);
    using watch = changes.watch('sbx_1');
    await watch.next();
    await watch.next();
  });

  it('notifications between servers from servers of another kind are ignored', async () => {
    for (const payload of ['', '{', '[1]', '[["sandbox"]]', '[["sandbox", 1]]', '{"length": 1}']) {
      await sql`select pg_notify('cloche', ${payload})`.execute(db);
    }
    one().notifications.send('sandbox', 'sbx_1');
    await eventually(() => other().heard.length > 0, { because: 'the sandbox was heard' });
    assert.deepEqual(other().heard, ['sbx_1']);
  });
});

describe('changes of a database with one server', () => {
  it('changes of a database with one server leave no timer behind', () => {
    using watch = sharedChanges<'sbx_1'>('sandbox', NO_NOTIFICATIONS).watch('sbx_1');
    const before = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    void watch.next();
    assert.equal(process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length, before);
  });
});
