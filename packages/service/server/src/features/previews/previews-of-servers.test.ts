/** Previews behind several servers of one database: any of them serves a preview, and all of them end it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { PreviewId } from '@cloche/contract';
import { eventually } from '@cloche/testkit/eventually';
import { echo, openPreviewWorld, type PreviewWorld, SWITCH } from '../../../testing/previews.ts';
import { listens, NEEDS_POSTGRES } from '../../../testing/servers.ts';
import { openTestDatabase, testDatabaseSettings } from '../../../testing/test-database.ts';
import { systemClock } from '../../platform/base/clock.ts';
import { NO_NOTIFICATIONS, openNotifications } from '../../platform/db/notifications.ts';
import { openDatabase } from '../../platform/db/open-database.ts';
import { ExchangeRegistry, MAX_EXCHANGES } from './proxy/exchange-registry.ts';
import { PreviewsOfServers } from './proxy/previews-of-servers.ts';

const ALONE = { others: async () => new Set<string>() };

describe('a preview that another server serves', { skip: NEEDS_POSTGRES }, () => {
  let one: PreviewWorld;
  let other: PreviewWorld;
  let database: Record<string, string>;
  beforeEach(async () => {
    database = await testDatabaseSettings();
    one = await openPreviewWorld(database);
    other = await openPreviewWorld(database, one.driver);
  });
  afterEach(async () => {
    await other.close();
    await one.close();
  });

  it('a preview that another server serves ends there, too, when it is deleted', async () => {
    const app = await one.serve(echo);
    app.on('upgrade', (_, socket: Socket) => {
      socket.on('error', () => undefined);
      socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
    });
    const { id, host } = await one.open({ visibility: 'public' });
    const socket = other.connect();
    socket.write(`GET /ws HTTP/1.1\r\nHost: ${host}\r\n${SWITCH}\r\n`);
    assert.match(String((await once(socket, 'data'))[0]), /^HTTP\/1\.1 101 /);
    const closed = once(socket.resume(), 'close');
    await one.call('DELETE', `/v1/previews/${id}`);
    await closed;
    assert.equal((await other.ask(host)).status, 404);
  });

  it('a preview that another server serves ends at the next look of a server that hears nothing', async () => {
    await using db = await openDatabase(database.CLOCHE_DATABASE_URL ?? '');
    const [deleted, kept] = [await one.open(), await one.open()];
    const exchanges = new ExchangeRegistry(systemClock);
    const ofServers = new PreviewsOfServers({ db, notifications: NO_NOTIFICATIONS, servers: ALONE, exchanges });
    const begin = ({ id }: { id: PreviewId }) =>
      exchanges.begin({ id, orgId: 'org_1', apiKeyId: undefined, expiresAt: Date.now() + 600_000 }, () => undefined);
    using ending = begin(deleted);
    using open = begin(kept);
    await one.call('DELETE', `/v1/previews/${deleted.id}`);
    assert.equal(ending.signal.aborted, false);
    await ofServers.look();
    assert.deepEqual([ending.signal.aborted, open.signal.aborted], [true, false]);
  });
});

describe('connections through a preview that another server deletes', { skip: NEEDS_POSTGRES }, () => {
  const preview = { id: 'prv_1' as PreviewId, orgId: 'org_1' as const, apiKeyId: undefined };
  const begin = (exchanges: ExchangeRegistry) =>
    exchanges.begin({ ...preview, expiresAt: Date.now() + 600_000 }, () => undefined);

  it('connections through a preview that another server deletes end when the server hears of it, without a look', async () => {
    await using db = await openTestDatabase();
    const [deleting, serving] = [openNotifications(db), openNotifications(db)];
    await Promise.all([deleting, serving].map(listens));
    const exchanges = new ExchangeRegistry(systemClock);
    new PreviewsOfServers({ db, notifications: serving, servers: ALONE, exchanges });
    using exchange = begin(exchanges);
    const elsewhere = new ExchangeRegistry(systemClock);
    new PreviewsOfServers({ db, notifications: deleting, servers: ALONE, exchanges: elsewhere }).end(preview.id);
    await eventually(() => exchange.signal.aborted, { because: 'the connection ends' });
    await Promise.all([deleting, serving].map((each) => each.close()));
  });
});

describe('the limit of connections of a preview', () => {
  it('the limit of connections of a preview is divided among the servers that live', async () => {
    await using db = await openTestDatabase();
    const exchanges = new ExchangeRegistry(systemClock);
    const others = new Set<string>();
    const servers = { others: async () => others };
    const ofServers = new PreviewsOfServers({ db, notifications: NO_NOTIFICATIONS, servers, exchanges });
    const preview = { id: 'prv_1' as PreviewId, orgId: 'org_1' as const, apiKeyId: undefined };
    const begin = () => exchanges.begin({ ...preview, expiresAt: Date.now() + 600_000 }, () => undefined);
    using open = new DisposableStack();
    const fill = () => {
      for (;;) open.use(begin());
    };
    open.use(begin());
    for (const id of ['srv_2', 'srv_3', 'srv_4']) others.add(id);
    await ofServers.look();
    assert.throws(fill, { code: 'preview_busy' });
    assert.equal(exchanges.size, MAX_EXCHANGES / 4);
    others.clear();
    await ofServers.look();
    assert.throws(fill, { code: 'preview_busy' });
    assert.equal(exchanges.size, MAX_EXCHANGES);
  });
});
