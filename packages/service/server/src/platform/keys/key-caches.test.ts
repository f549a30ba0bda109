import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import type { ApiKeyId } from '@cloche/contract';
import { FakeClock } from '@cloche/testkit';
import { eventually } from '@cloche/testkit/eventually';
import { apiKeyServiceOf } from '../../../testing/api-key-service.ts';
import { listens, NEEDS_POSTGRES } from '../../../testing/servers.ts';
import { openBeside, openTestDatabase } from '../../../testing/test-database.ts';
import { randomIds } from '../base/id-source.ts';
import type { Database } from '../db/database.ts';
import { openNotifications } from '../db/notifications.ts';
import { OrgRepository } from '../tenancy/org-repository.ts';
import { SqlApiKeyRepository } from './api-key-repository.ts';
import { Authenticator } from './authenticator.ts';
import { KeyCaches } from './key-caches.ts';

const clock = new FakeClock();

/** The services that each server has of its own. */
async function serverOf(db: Database) {
  const notifications = openNotifications(db);
  await listens(notifications);
  const keyCaches = new KeyCaches({ db, clock, notifications, processId: randomIds.next('srv_') }, () =>
    authenticator.forget(),
  );
  const keys = new SqlApiKeyRepository(db);
  const authenticator: Authenticator = new Authenticator(keys, clock, keyCaches);
  await keyCaches.look();
  const service = apiKeyServiceOf(db, { keys, authenticator, clock });
  return { db, notifications, keyCaches, keys, authenticator, service };
}
type TestServer = Awaited<ReturnType<typeof serverOf>>;

describe('a revocation with several servers', { skip: NEEDS_POSTGRES }, () => {
  let servers: TestServer[];
  let revoking: TestServer;
  let others: TestServer[];
  let key: { id: ApiKeyId; secret: string };

  beforeEach(async () => {
    const db = await openTestDatabase();
    servers = [await serverOf(db), await serverOf(await openBeside(db)), await serverOf(await openBeside(db))];
    const [first, ...rest] = servers;
    revoking = first ?? assert.fail();
    others = rest;
    const orgId = (await new OrgRepository(db, clock, randomIds).ensureFirst()).id;
    const made = await revoking.service.create({ orgId, name: 'key', scopes: ['*'] });
    key = { id: made.apiKey.id, secret: made.secret };
  });
  afterEach(async () => {
    for (const { notifications } of servers) await notifications.close();
    for (const { db } of servers.toReversed()) await db.destroy();
  });

  const isAccepted = ({ authenticator }: TestServer) =>
    authenticator.authenticate(key.secret).then(
      () => true,
      (error: { code?: string }) => (error.code === 'unauthorized' ? false : Promise.reject(error)),
    );
  /** Makes the server stand still: it neither hears anything nor looks. */
  const stopHearing = ({ notifications }: TestServer) => notifications.close();

  it('a revocation with several servers is in force on all of them when it is answered', async () => {
    for (let round = 0; round < 10; round += 1) {
      const orgId = (await new OrgRepository(revoking.db, clock, randomIds).ensureFirst()).id;
      const made = await revoking.service.create({ orgId, name: `key ${round}`, scopes: ['*'] });
      key = { id: made.apiKey.id, secret: made.secret };
      assert.deepEqual(await Promise.all(servers.map(isAccepted)), [true, true, true]);
      await revoking.service.revoke(key.id);
      assert.deepEqual(await Promise.all(servers.map(isAccepted)), [false, false, false]);
    }
  });

  it('a revocation with several servers waits for a server that stands still until that one may not use its cache any more', async () => {
    const [other] = others as [TestServer];
    await stopHearing(other);
    assert.equal(await isAccepted(other), true);
    let isAnswered = false;
    const revoked = revoking.service.revoke(key.id).then(() => {
      isAnswered = true;
    });
    const ended = () => revoking.keys.listEnded([key.id], clock.now());
    await eventually(async () => (await ended()).length > 0, { because: 'the key is revoked in the database' });
    // The control: without the wait, this server would still accept the key after the answer.
    assert.deepEqual([await isAccepted(other), isAnswered], [true, false]);
    clock.advance(10_001);
    await revoked;
    assert.equal(await isAccepted(other), false);
  });

  it('a revocation with several servers is found by the next look of a server that hears nothing', async () => {
    await Promise.all(others.map(stopHearing));
    assert.deepEqual(await Promise.all(others.map(isAccepted)), [true, true]);
    const revoked = revoking.service.revoke(key.id);
    const looking = setInterval(() => {
      for (const { keyCaches } of others) void keyCaches.look();
    }, 10);
    await revoked;
    clearInterval(looking);
    assert.deepEqual(await Promise.all(others.map(isAccepted)), [false, false]);
    // Also waits for the looks before it.
    for (const { keyCaches } of others) await keyCaches.look();
  });

  it('a revocation with several servers does not wait for a server that has stopped', async () => {
    for (const other of others) {
      await stopHearing(other);
      assert.equal(await isAccepted(other), true);
      await other.keyCaches.stop();
    }
    await revoking.service.revoke(key.id);
    assert.deepEqual(await Promise.all(servers.map(isAccepted)), [false, false, false]);
  });

  it('a revocation with several servers ends its wait with the request, and is told again when it is repeated', async () => {
    const [other] = others as [TestServer];
    await stopHearing(other);
    const leaving = new AbortController();
    const waiting = revoking.authenticator.forgetEverywhere(leaving.signal);
    leaving.abort();
    await waiting;
  });

  it('a revocation with several servers reads each key from the database while no cache may be used', async () => {
    const [other] = others as [TestServer];
    await stopHearing(other);
    clock.advance(10_001);
    assert.equal(await isAccepted(other), true);
    await revoking.service.revoke(key.id);
    assert.equal(await isAccepted(other), false);
  });
});
