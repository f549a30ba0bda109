import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type OrgId, operations, type SandboxId } from '@cloche/contract';
import { LaunchError } from '@cloche/runtime';
import { FakeClock } from '@cloche/testkit';
import { repositoryOf } from '../../../../testing/sandbox-repository.ts';
import { openSandboxes, type SandboxesWorld } from '../../../../testing/sandboxes.ts';
import { credentialOf, DEFAULT_PROJECT, OTHER_PROJECT } from '../../../../testing/seeded-organizations.ts';
import { NEEDS_POSTGRES } from '../../../../testing/servers.ts';
import type { TestRequest } from '../../../../testing/test-request.ts';
import { toRow } from '../../sandbox-records/sandbox-row.ts';

async function listed(world: SandboxesWorld, query: Record<string, string> = {}, call: TestRequest = {}) {
  const { data, hasMore } = await world.call(operations.listSandboxes, { ...call, query });
  assert.equal(hasMore, false);
  return data.map(({ id }) => id);
}

/** Returns the ids of the pages, at most `count`. */
async function pagesOf(world: SandboxesWorld, query: Record<string, string | number>, count = 20) {
  const pages: string[][] = [];
  for (let cursor: string | undefined; pages.length < count; ) {
    const page = await world.call(operations.listSandboxes, {
      query: cursor === undefined ? query : { ...query, cursor },
    });
    pages.push(page.data.map(({ id }) => id));
    assert.equal(page.hasMore, page.nextCursor !== undefined);
    if (!page.hasMore) break;
    cursor = page.nextCursor;
  }
  return pages;
}

describe('listing sandboxes', () => {
  it('listing sandboxes gives the newest first', async () => {
    await using world = await openSandboxes();
    const ids: SandboxId[] = [];
    for (let made = 0; made < 12; made += 1) ids.unshift((await world.create()).id);
    assert.deepEqual(await listed(world), ids);
  });

  it('listing sandboxes gives the newest first, whichever of two servers with different clocks created it', {
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

  it('listing sandboxes leaves destroyed and failed ones out unless they are asked for', async () => {
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

  it('listing sandboxes tells running and idle from ready', async () => {
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

  it('listing sandboxes filters by labels exactly', async () => {
    await using world = await openSandboxes();
    const { id } = await world.create({ metadata: { team: 'a', 'x.y': '1' } });
    await world.create({ metadata: { team: 'ab' } });
    assert.deepEqual(await listed(world, { 'metadata.team': 'a' }), [id]);
    assert.deepEqual(await listed(world, { 'metadata.team': 'a', 'metadata.x.y': '1' }), [id]);
    assert.deepEqual(await listed(world, { 'metadata.constructor': 'x' }), []);
  });

  it('listing sandboxes filters by the beginning of an id, and by the time of creation without its ends', async () => {
    await using world = await openSandboxes();
    const made: { id: SandboxId; createdAt: string }[] = [];
    for (let count = 0; count < 5; count += 1) {
      made.push(await world.create());
      world.clock.advance(1_000);
    }
    const [first, second, third, fourth] = made;
    assert.ok(first && second && third && fourth);
    assert.deepEqual(await listed(world, { createdAfter: first.createdAt, createdBefore: fourth.createdAt }), [
      third.id,
      second.id,
    ]);
    assert.deepEqual(await listed(world, { idPrefix: second.id }), [second.id]);
    assert.equal((await listed(world, { idPrefix: second.id.slice(0, -1) })).includes(second.id), true);
    assert.deepEqual(await listed(world, { idPrefix: 'sbx_none' }), []);
    await assert.rejects(listed(world, { createdAfter: 'yesterday' }), { code: 'invalid_request' });
  });

  it('listing sandboxes has pages of the same order, with every filter, also one that few of very many match', async () => {
    await using world = await openSandboxes();
    const template = await repositoryOf(world).find((await world.create()).id);
    assert.ok(template);
    const rows = Array.from({ length: 4_500 }, (_, index) => ({
      ...toRow({
        ...template,
        id: `sbx_old${index}` as SandboxId,
        status: 'destroyed',
        idempotencyRecordId: undefined,
      }),
      created_at: index,
      metadata: JSON.stringify(index % 2_200 === 0 ? { rare: 'yes', 'a"b.c': '1' } : { rare: 'no' }),
      project_id: index % 2_200 === 0 ? OTHER_PROJECT : DEFAULT_PROJECT,
    }));
    for (let from = 0; from < rows.length; from += 500) {
      await world.db
        .insertInto('sandboxes')
        .values(rows.slice(from, from + 500))
        .execute();
    }
    const rare = ['sbx_old4400', 'sbx_old2200', 'sbx_old0'];
    for (const query of [{ 'metadata.rare': 'yes' }, { projectId: OTHER_PROJECT }, { 'metadata.a"b.c': '1' }]) {
      const wanted = { include: 'historical', ...query };
      assert.deepEqual(await listed(world, wanted), rare);
      assert.deepEqual(await pagesOf(world, { ...wanted, limit: 2 }), [rare.slice(0, 2), rare.slice(2)]);
    }
    assert.deepEqual(await listed(world, { include: 'historical', createdBefore: '1970-01-01T00:00:00.002Z' }), [
      'sbx_old1',
      'sbx_old0',
    ]);
    const [live] = await listed(world);
    assert.deepEqual(await pagesOf(world, { limit: 2, include: 'historical' }, 1), [[live, 'sbx_old4499']]);
  });

  it('listing sandboxes has pages of statuses that depend on what runs', async () => {
    await using world = await openSandboxes();
    const idle: SandboxId[] = [];
    for (let made = 0; made < 6; made += 1) {
      const id = await world.createReady();
      if (made % 2 === 0) {
        await world.run(id, 'print x');
        idle.unshift(id);
      }
    }
    assert.deepEqual(await pagesOf(world, { status: 'idle', limit: 2 }), [idle.slice(0, 2), idle.slice(2)]);
  });

  it('listing sandboxes shows no other organization’s, and no project outside the key’s', async () => {
    await using world = await openSandboxes();
    const mine = await world.create();
    const other = await world.create({ projectId: OTHER_PROJECT });
    assert.deepEqual(await listed(world, {}, { credential: credentialOf('org_2' as OrgId) }), []);
    const bound = { credential: credentialOf(undefined, [OTHER_PROJECT]) };
    assert.deepEqual(await listed(world, {}, bound), [other.id]);
    assert.deepEqual(await listed(world, { projectId: DEFAULT_PROJECT }), [mine.id]);
    await assert.rejects(listed(world, { projectId: DEFAULT_PROJECT }, bound), { code: 'forbidden' });
    await assert.rejects(listed(world, { projectId: 'prj_none' }), { code: 'not_found' });
    const get = (call: TestRequest) => world.call(operations.getSandbox, { ...call, params: { sandboxId: mine.id } });
    await assert.rejects(get(bound), { code: 'forbidden' });
    await assert.rejects(get({ credential: credentialOf('org_2' as OrgId) }), { code: 'not_found' });
  });
});
