/** The bootstrap key of several servers of one database. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { eventually } from '@cloche/testkit/eventually';
import { apiKeyServiceOf } from '../../testing/api-key-service.ts';
import { openSandboxes, type SandboxesWorld } from '../../testing/sandboxes.ts';
import { ORG } from '../../testing/seeded-organizations.ts';
import { SILENT } from '../../testing/silent.ts';
import { standStill } from '../../testing/stand-still.ts';
import { SqlApiKeyRepository } from '../platform/keys/api-key-repository.ts';
import { Authenticator } from '../platform/keys/authenticator.ts';
import { bootstrapApiKey } from './bootstrap-api-key.ts';

const [FIRST, SECOND] = ['a'.repeat(20), 'b'.repeat(20)];

function keysOf({ db, clock, liveServers }: SandboxesWorld) {
  const keys = new SqlApiKeyRepository(db);
  const authenticator = new Authenticator(keys, clock);
  const apiKeys = apiKeyServiceOf(db, { keys, authenticator, clock });
  const bootstrap = (key: string) => bootstrapApiKey({ apiKeys, servers: liveServers, log: SILENT }, ORG, key, 1);
  const accepts = (key: string) =>
    authenticator.authenticate(key).then(
      () => true,
      () => false,
    );
  return { apiKeys, authenticator, bootstrap, accepts };
}
type Keys = ReturnType<typeof keysOf>;

const liveKeys = async ({ db }: SandboxesWorld) =>
  (await db.selectFrom('api_keys').select('id').where('revoked_at', 'is', null).execute()).length;

describe('the bootstrap key, with several servers', () => {
  it('the bootstrap key, with several servers, is made once by servers that start at the same time', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    await using c = await a.beside('srv_3');
    const servers = [a, b, c].map(keysOf);
    await Promise.all(servers.map(({ bootstrap }) => bootstrap(FIRST)));
    assert.equal(await liveKeys(a), 1);
    for (const { accepts } of servers) assert.equal(await accepts(FIRST), true);
  });

  it('the bootstrap key, with several servers that is changed on one server after another works on each of them until that one has ended', async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    const [before, after] = [keysOf(a), keysOf(b)];
    assert.equal(await before.bootstrap(FIRST), undefined);
    const retirement = await after.bootstrap(SECOND);
    assert.ok(retirement);
    // The old server starts again, and more servers of the new key start.
    const again = await before.bootstrap(FIRST);
    before.authenticator.forget();
    after.authenticator.forget();
    assert.deepEqual([await before.accepts(FIRST), await after.accepts(SECOND)], [true, true]);
    assert.equal(await liveKeys(a), 2);
    await again?.stop();
    await a.loseLease();
    await eventually(async () => (await liveKeys(b)) === 1, { because: 'the old key is revoked' });
    before.authenticator.forget();
    after.authenticator.forget();
    assert.deepEqual([await before.accepts(FIRST), await after.accepts(SECOND)], [false, true]);
    await retirement.stop();
  });

  it('the bootstrap key, with several servers that a server is started with again stays, though another server was to revoke it', {
    timeout: 60_000,
  }, async () => {
    await using a = await openSandboxes();
    await using b = await a.beside('srv_2');
    await using c = await a.beside('srv_3');
    await c.loseLease();
    const [before, after, back] = [a, b, c].map(keysOf) as [Keys, Keys, Keys];
    await before.bootstrap(FIRST);
    const retirement = await after.bootstrap(SECOND);
    // The change is taken back: a server starts with the old key, and only then the one before the change ends.
    await c.renewLease();
    const retirementBack = await back.bootstrap(FIRST);
    await a.loseLease();
    for (let look = 1; look <= 3; look += 1) {
      const { reached, goOn } = standStill('after', after.apiKeys, 'listBootstrap');
      await reached;
      goOn();
    }
    for (const { authenticator } of [after, back]) authenticator.forget();
    assert.deepEqual([await back.accepts(FIRST), await after.accepts(SECOND)], [true, true]);
    await retirementBack?.stop();
    // It is revoked when that server ends, which has the old key alone.
    await c.loseLease();
    await eventually(async () => (await liveKeys(b)) === 1, { because: 'the old key is revoked' });
    after.authenticator.forget();
    assert.deepEqual([await after.accepts(FIRST), await after.accepts(SECOND)], [false, true]);
    await retirement?.stop();
  });

  it('the bootstrap key, with several servers that is the only one has the same time of creation after a restart', async () => {
    await using world = await openSandboxes();
    const { bootstrap } = keysOf(world);
    const created = () => world.db.selectFrom('api_keys').select(['id', 'created_at']).execute();
    await bootstrap(FIRST);
    const first = await created();
    world.clock.advance(1000);
    await bootstrap(FIRST);
    assert.deepEqual(await created(), first);
  });
});
