import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type OrgId, operations, type SandboxId } from '@cloche/contract';
import { FakeClock } from '@cloche/testkit';
import {
  type Call,
  credentialOf,
  DEFAULT_PROJECT,
  OTHER_PROJECT,
  openSandboxes,
  type SandboxesWorld,
} from '../../../testing/sandboxes.ts';
import { NEEDS_POSTGRES } from '../../../testing/servers.ts';
import { LaunchError } from '../../driver/runtime-driver.ts';

async function listed(world: SandboxesWorld, query: Record<string, string> = {}, call: Call = {}) {
  const { data, hasMore } = await world.call(operations.listSandboxes, { ...call, query });
  assert.equal(hasMore, false);
  return data.map(({ id }) => id);
}

describe('listing sandboxes', () => {
  it('gives the newest first', async () => {
    await using world = await openSandboxes();
    const ids: SandboxId[] = [];
    for (let made = 0; made < 12; made += 1) ids.unshift((await world.create()).id);
    assert.deepEqual(await listed(world), ids);
  });

  it('gives the newest first, whichever of two servers with different clocks created it', {
    skip: NEEDS_POSTGRES,
  }, async () => {
    await using fast = await openSandboxes();
    await using slow = await fast.beside('srv_2', new FakeClock(fast.clock.now() - 5_000));
    const ids: SandboxId[] = [];
    for (let made = 0; made < 12; made += 1) ids.unshift((await (made % 2 === 0 ? fast : slow).create()).id);
    assert.deepEqual(await listed(fast), ids);
    assert.deepEqual(await listed(slow), ids);
    const created = await Promise.all(ids.map(async (id) => Date.parse((await slow.get(id)).createdAt)));
    assert.equal(new Set(created).size, ids.length);
  });

  it('leaves destroyed and failed ones out unless they are asked for', async () => {
    await using world = await openSandboxes();
    const destroyed = await world.createReady();
    await world.kill(destroyed);
    world.driver.launchErrors.push(new LaunchError('failed', 'x'));
    const { id: failed } = await world.create();
    await world.waitFor(failed, 'ready');
    const ready = await world.createReady();
    assert.deepEqual(await listed(world), [ready]);
    assert.deepEqual(await listed(world, { include: 'historical' }), [ready, failed, destroyed]);
    assert.deepEqual(await listed(world, { status: 'destroyed' }), [destroyed]);
    assert.deepEqual(await listed(world, { status: 'failed' }), [failed]);
  });

  it('tells running and idle from ready', async () => {
    await using world = await openSandboxes();
    const [ready, idle, running] = [await world.createReady(), await world.createReady(), await world.createReady()];
    await world.run(idle, 'print x');
    const run = world.run(running, 'hang');
    await world.waitFor(running, 'running');
    assert.deepEqual(await listed(world, { status: 'ready' }), [ready]);
    assert.deepEqual(await listed(world, { status: 'idle' }), [idle]);
    assert.deepEqual(await listed(world, { status: 'running' }), [running]);
    await world.kill(running);
    await run;
  });

  it('filters by labels exactly', async () => {
    await using world = await openSandboxes();
    const { id } = await world.create({ metadata: { team: 'a', 'x.y': '1' } });
    await world.create({ metadata: { team: 'ab' } });
    assert.deepEqual(await listed(world, { 'metadata.team': 'a' }), [id]);
    assert.deepEqual(await listed(world, { 'metadata.team': 'a', 'metadata.x.y': '1' }), [id]);
    assert.deepEqual(await listed(world, { 'metadata.constructor': 'x' }), []);
  });

  it('shows no other organization’s, and no project outside the key’s', async () => {
    await using world = await openSandboxes();
    const mine = await world.create();
    const other = await world.create({ projectId: OTHER_PROJECT });
    assert.deepEqual(await listed(world, {}, { credential: credentialOf('org_2' as OrgId) }), []);
    const bound = { credential: credentialOf(undefined, [OTHER_PROJECT]) };
    assert.deepEqual(await listed(world, {}, bound), [other.id]);
    assert.deepEqual(await listed(world, { projectId: DEFAULT_PROJECT }), [mine.id]);
    await assert.rejects(listed(world, { projectId: DEFAULT_PROJECT }, bound), { code: 'forbidden' });
    await assert.rejects(listed(world, { projectId: 'prj_none' }), { code: 'not_found' });
    const get = (call: Call) => world.call(operations.getSandbox, { ...call, params: { sandboxId: mine.id } });
    await assert.rejects(get(bound), { code: 'forbidden' });
    await assert.rejects(get({ credential: credentialOf('org_2' as OrgId) }), { code: 'not_found' });
  });
});
