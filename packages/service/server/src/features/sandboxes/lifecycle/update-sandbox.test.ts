import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations, type SandboxId } from '@cloche/contract';
import { LaunchError } from '@cloche/runtime';
import { isFrozen, openPauses, pause } from '../../../../testing/pauses.ts';
import { openSandboxes, type SandboxesWorld } from '../../../../testing/sandboxes.ts';
import { NEEDS_POSTGRES } from '../../../../testing/servers.ts';

const update = async (world: SandboxesWorld, sandboxId: SandboxId, body: object) =>
  (await world.call(operations.updateSandbox, { params: { sandboxId }, body })).sandbox;

describe('a change of a sandbox', () => {
  it('a change of a sandbox sets the fields that the body has and keeps the others', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady({ name: 'web', metadata: { team: 'a', run: '1' } });
    const seen = async () => {
      const { name, metadata } = await world.get(id);
      return [name, metadata];
    };
    await update(world, id, {});
    assert.deepEqual(await seen(), ['web', { team: 'a', run: '1' }]);
    assert.equal((await update(world, id, { name: 'app' })).name, 'app');
    assert.deepEqual(await seen(), ['app', { team: 'a', run: '1' }]);
    // Labels are replaced as a whole.
    await update(world, id, { metadata: { team: 'b' } });
    assert.deepEqual(await seen(), ['app', { team: 'b' }]);
    await update(world, id, { name: null, metadata: {} });
    assert.deepEqual(await seen(), [undefined, {}]);
    const { data } = await world.call(operations.listSandboxes, { query: { name: 'app' } });
    assert.deepEqual(data, []);
    const rows = await world.db.selectFrom('events').select('data').where('type', '=', 'sandbox.updated').execute();
    const events = rows.map((row) => JSON.parse(row.data).sandbox);
    assert.deepEqual(
      events.map(({ name, metadata }) => [name, metadata]),
      [
        ['app', { team: 'a', run: '1' }],
        ['app', { team: 'b' }],
        [undefined, {}],
      ],
    );
  });

  it('a change of a sandbox keeps its own name, and is refused the name of another with that one', async () => {
    await using world = await openSandboxes();
    const [web, app] = [await world.createReady({ name: 'web' }), await world.createReady({ name: 'app' })];
    await update(world, web, { name: 'web' });
    const refused = { code: 'conflict', details: { sandboxId: web } };
    await assert.rejects(update(world, app, { name: 'web', metadata: { team: 'a' } }), refused);
    assert.deepEqual((await world.get(app)).metadata, {});
    await update(world, web, { name: null });
    await update(world, app, { name: 'web' });
    await world.create({ name: 'app' });
  });

  it('a change of a sandbox gives a name to exactly one of 50 sandboxes at once', async () => {
    await using world = await openSandboxes();
    const ids = await Promise.all(Array.from({ length: 50 }, async () => (await world.create()).id));
    const results = await Promise.allSettled(ids.map((id) => update(world, id, { name: 'web' })));
    assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
    const { data } = await world.call(operations.listSandboxes, { query: { name: 'web' } });
    assert.equal(data.length, 1);
  });

  it('a change of a sandbox gives a name to exactly one of two servers’ sandboxes and creations', {
    skip: NEEDS_POSTGRES,
  }, async () => {
    await using world = await openSandboxes();
    await using other = await world.beside('srv_2');
    for (let round = 0; round < 10; round += 1) {
      const [id, name] = [(await world.create()).id, `web-${round}`];
      const results = await Promise.allSettled([update(world, id, { name }), other.create({ name })]);
      assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 1);
      const { data } = await other.call(operations.listSandboxes, { query: { name } });
      assert.equal(data.length, 1);
    }
  });

  it('a change of a sandbox does not wake it, and wakes keep it', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const { paused } = await pause(world, id);
    assert.deepEqual((await update(world, id, { name: 'web', metadata: { team: 'a' } })).paused, paused);
    assert.ok(isFrozen(world, id));
    const { sandbox } = await world.call(operations.resumeSandbox, { params: { sandboxId: id }, body: {} });
    assert.deepEqual([sandbox.name, sandbox.metadata], ['web', { team: 'a' }]);
  });

  it('a change of a sandbox is refused once it has ended, and for labels that are too long together', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const long = Object.fromEntries(['a', 'b', 'c', 'd', 'e'].map((key) => [key, 'é'.repeat(512)]));
    await assert.rejects(update(world, id, { metadata: long }), { code: 'invalid_request', message: /4096/ });
    await world.kill(id);
    await assert.rejects(update(world, id, { name: 'web' }), { code: 'sandbox_destroyed' });
    world.driver.launchErrors.push(new LaunchError('failed', 'x'));
    const { id: failed } = await world.create();
    await world.waitFor(failed, 'ready');
    await assert.rejects(update(world, failed, { name: 'web' }), { code: 'sandbox_failed' });
  });
});
