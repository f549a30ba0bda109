/** The usage of sandboxes on a real database and a fake runtime, whose counters the tests choose. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import { compiledForPostgres } from '../../../testing/compiled-for-postgres.ts';
import { repositoryOf } from '../../../testing/sandbox-repository.ts';
import { openSandboxes } from '../../../testing/sandboxes.ts';
import { DEFAULT_PROJECT } from '../../../testing/seeded-organizations.ts';
import { SILENT } from '../../../testing/silent.ts';
import { list, pass, RESOURCES, ready, sum, usageOf, used } from '../../../testing/usage.ts';
import { composeUsage } from '../../compose/compose-usage.ts';
import { UNAUDITED } from '../../platform/call/call.ts';
import { Transactions } from '../../platform/db/transactions.ts';
import { HOUR_MS } from './hour-sums.ts';

describe('the usage of a live sandbox', () => {
  it('the usage of a live sandbox is what its instance used and the time since it became ready, at the last count', async () => {
    await using world = await openSandboxes();
    const id = await ready(world);
    world.driver.spend(id, { cpuMs: 300, egressBytes: 10, ingressBytes: 20 });
    await pass(world);
    const first = { cpuMs: 300, memoryMbMs: 256 * 10_000, diskMbMs: 128 * 10_000, egressBytes: 10, ingressBytes: 20 };
    const from = '2026-01-01T00:00:00.000Z';
    assert.deepEqual(used(await usageOf(world, id)), { ...first, from, to: '2026-01-01T00:00:10.000Z' });

    world.driver.spend(id, { cpuMs: 50, egressBytes: 1 });
    await pass(world);
    const second = { cpuMs: 350, memoryMbMs: 256 * 20_000, diskMbMs: 128 * 20_000, egressBytes: 11, ingressBytes: 20 };
    assert.deepEqual(used(await usageOf(world, id)), { ...second, from, to: '2026-01-01T00:00:20.000Z' });
    const day = { from, to: '2026-01-02T00:00:00.000Z', projectId: DEFAULT_PROJECT, sandboxMs: 20_000 };
    assert.deepEqual((await list(world)).map(used), [{ ...second, ...day }]);
  });

  it('the usage of a live sandbox is nothing before its first count', async () => {
    await using world = await openSandboxes();
    const id = await ready(world);
    const at = '2026-01-01T00:00:00.000Z';
    assert.deepEqual(used(await usageOf(world, id)), { from: at, to: at });
    assert.deepEqual(await list(world), []);
  });

  it('the usage of a live sandbox counts time while the runtime does not answer, and the counters once it does', async () => {
    await using world = await openSandboxes();
    const id = await ready(world);
    world.driver.spend(id, { cpuMs: 70 });
    world.driver.isDown = true;
    await pass(world);
    assert.deepEqual([(await usageOf(world, id)).cpuMs, (await usageOf(world, id)).memoryMbMs], [0, 2_560_000]);
    world.driver.isDown = false;
    await pass(world);
    assert.deepEqual([(await usageOf(world, id)).cpuMs, (await usageOf(world, id)).memoryMbMs], [70, 5_120_000]);
  });

  it('the usage of a live sandbox is split at the hours', async () => {
    await using world = await openSandboxes();
    const id = await ready(world);
    await pass(world, HOUR_MS - 4_000);
    world.driver.spend(id, { cpuMs: 9 });
    await pass(world, 10_000);
    const rows = await list(world, { groupBy: 'hour' });
    assert.deepEqual(
      rows.map(({ from, to, sandboxMs, memoryMbMs, cpuMs }) => [from, to, sandboxMs, memoryMbMs, cpuMs]),
      [
        ['2026-01-01T00:00:00.000Z', '2026-01-01T01:00:00.000Z', HOUR_MS, 256 * HOUR_MS, 0],
        ['2026-01-01T01:00:00.000Z', '2026-01-01T02:00:00.000Z', 6_000, 256 * 6_000, 9],
      ],
    );
    await pass(world, 3 * HOUR_MS);
    assert.equal((await list(world, { groupBy: 'hour' })).length, 5);
    assert.equal(sum(await list(world, { groupBy: 'hour' }), 'sandboxMs'), 4 * HOUR_MS + 6_000);
  });

  it('the usage of a live sandbox counts no time twice when a count has an earlier time than the one before', async () => {
    await using world = await openSandboxes();
    await ready(world);
    await pass(world);
    await pass(world, -5_000);
    await pass(world, 15_000);
    assert.equal(sum(await list(world), 'sandboxMs'), 20_000);
  });

  it('the usage of a live sandbox begins again where a counter does, and counts nothing twice', async () => {
    await using world = await openSandboxes();
    const id = await ready(world);
    world.driver.spend(id, { cpuMs: 500, egressBytes: 100 });
    await pass(world);
    world.driver.spend(id, { cpuMs: -480 });
    await pass(world);
    assert.equal((await usageOf(world, id)).cpuMs, 500);
    world.driver.spend(id, { cpuMs: 30, egressBytes: 5 });
    await pass(world);
    assert.deepEqual([(await usageOf(world, id)).cpuMs, (await usageOf(world, id)).egressBytes], [530, 105]);
  });
});

describe('a sandbox whose launch begins again', () => {
  it('a sandbox whose launch begins again uses what its next generation does', async () => {
    await using world = await openSandboxes();
    world.driver.holdLaunches();
    const { id } = await world.create({ resources: RESOURCES });
    world.driver.launchGate = undefined;
    await pass(world);
    await world.crash();
    await world.waitFor(id, 'ready');
    world.driver.spend(id, { cpuMs: 40 });
    await pass(world);
    assert.deepEqual([(await usageOf(world, id)).cpuMs, sum(await list(world), 'sandboxMs')], [40, 10_000]);
  });
});

describe('roll-ups', () => {
  it('roll-ups of several servers at once count everything once', async () => {
    await using world = await openSandboxes();
    const ids = await Promise.all(Array.from({ length: 30 }, () => ready(world)));
    const other = composeUsage({ ...world, log: SILENT });
    for (let round = 0; round < 20; round += 1) {
      for (const id of ids) world.driver.spend(id, { cpuMs: 7, egressBytes: 3 });
      world.clock.advance(10_000);
      other.startedWork.count(await world.get(ids[0] as SandboxId), 'runs');
      await Promise.all([world.usage.rollUp.pass(), other.rollUp.pass()]);
    }
    await other.rollUp.pass();
    const [row] = await list(world);
    assert.ok(row);
    const expected = { cpuMs: 30 * 20 * 7, egressBytes: 30 * 20 * 3, sandboxMs: 30 * 200_000, runs: 20 };
    for (const [field, value] of Object.entries(expected)) assert.equal(row[field as 'cpuMs'], value, field);
    const usages = await Promise.all(ids.map((id) => usageOf(world, id)));
    assert.equal(
      usages.reduce((total, { cpuMs }) => total + cpuMs, 0),
      expected.cpuMs,
    );
  });

  it('roll-ups of more sandboxes than one transaction takes leave none out', async () => {
    await using world = await openSandboxes();
    for (let made = 0; made < 230; made += 1) await ready(world);
    const before = sum(await list(world), 'sandboxMs');
    await pass(world);
    assert.equal(sum(await list(world), 'sandboxMs') - before, 230 * 10_000);
  });
});

describe('the usage of an ended sandbox', () => {
  it('the usage of an ended sandbox has everything up to its end, from the same moment on', async () => {
    await using world = await openSandboxes();
    const id = await ready(world);
    await world.run(id, 'print x');
    await pass(world);
    world.driver.spend(id, { cpuMs: 25 });
    world.clock.advance(3_000);
    await world.run(id, 'print x');
    await world.kill(id);
    const usage = await usageOf(world, id);
    assert.deepEqual(
      [usage.cpuMs, usage.runs, usage.memoryMbMs, usage.to],
      [25, 2, 256 * 13_000, (await world.get(id)).destroyedAt],
    );
    await pass(world);
    assert.deepEqual(await usageOf(world, id), usage);
    const [row] = await list(world);
    assert.deepEqual([row?.cpuMs, row?.runs, row?.sandboxMs], [25, 2, 13_000]);
  });

  it('the usage of an ended sandbox is rolled back with its end', async () => {
    await using world = await openSandboxes();
    const id = await ready(world);
    world.clock.advance(1_000);
    const repository = repositoryOf(world);
    const record = await repository.find(id);
    assert.ok(record);
    await world.db.schema.alterTable('events').renameTo('gone').execute();
    await assert.rejects(repository.transition(record, 'fail', { failureReason: 'x' }));
    await world.db.schema.alterTable('gone').renameTo('events').execute();
    assert.deepEqual(await list(world), []);
    await pass(world);
    assert.equal(sum(await list(world), 'sandboxMs'), 11_000);
  });

  it('the usage of an ended sandbox ends with the failure of the sandbox, and has what its instance used until it was stopped', async () => {
    await using world = await openSandboxes();
    const id = await ready(world);
    world.clock.advance(4_000);
    world.driver.spend(id, { cpuMs: 12 });
    await assert.rejects(world.run(id, 'impostor'), { code: 'sandbox_failed' });
    await world.until(async () => (await usageOf(world, id)).cpuMs === 12);
    world.clock.advance(60_000);
    await world.kill(id);
    await pass(world);
    const [row] = await list(world);
    assert.deepEqual([row?.sandboxMs, row?.cpuMs, row?.runs], [4_000, 12, 1]);
  });

  it('the usage of an ended sandbox is nothing if it never became ready', async () => {
    await using world = await openSandboxes();
    world.driver.launchErrors.push(new Error('no'));
    const { id } = await world.create();
    await world.waitFor(id, 'failed');
    await pass(world);
    await world.kill(id);
    const usage = await usageOf(world, id);
    assert.deepEqual(used(usage), { from: usage.to, to: usage.to });
    assert.deepEqual(await list(world), []);
  });

  it('the usage of an ended sandbox is deleted with its record, while that of its project stays', async () => {
    await using world = await openSandboxes({ recordRetentionMs: 1_000 });
    const id = await ready(world);
    await pass(world);
    await world.kill(id);
    world.clock.advance(5_000);
    await world.crash();
    await world.until(async () => (await world.db.selectFrom('sandboxes').selectAll().execute()).length === 0);
    assert.deepEqual(await world.db.selectFrom('sandbox_usage').selectAll().execute(), []);
    assert.equal(sum(await list(world), 'sandboxMs'), 10_000);
  });
});

describe('artifacts', () => {
  it('artifacts count their bytes once, with the artifact or not at all', async () => {
    await using world = await openSandboxes();
    const id = await ready(world);
    const { orgId, projectId } = await world.get(id);
    const artifact = {
      id: 'art_1' as const,
      orgId,
      projectId,
      sandboxId: id,
      name: 'a',
      path: undefined,
      contentType: 'text/plain',
      sizeBytes: 1234,
      sha256: '0'.repeat(64),
      metadata: {},
      createdAt: world.clock.now(),
      expiresAt: undefined,
      deletedAt: undefined,
      idempotencyRecordId: 'idem_1',
    } as const;
    assert.ok(await world.artifacts.insert(artifact));
    assert.equal(await world.artifacts.insert({ ...artifact, id: 'art_2' }), undefined);
    await world.artifacts.markDeleted(UNAUDITED, artifact.id, 1);
    assert.deepEqual(
      (await list(world)).map(({ artifactBytes }) => artifactBytes),
      [1234],
    );
  });
});

it('on PostgreSQL, a count replaces only the version before it', async () => {
  const { db, queries } = compiledForPostgres();
  await using world = await openSandboxes();
  const record = await repositoryOf(world).find(await ready(world));
  assert.ok(record);
  const { usages } = composeUsage({ ...world, db, transactions: new Transactions(db), log: SILENT });
  // No database answers, so each write seems to come too late.
  await assert.rejects(usages.end(record, undefined), /changed at each/);
  const written = queries.map(({ sql }) => sql).find((sql) => sql.startsWith('insert into "sandbox_usage"')) ?? '';
  assert.match(written, /on conflict \("sandbox_id"\) do update set "version" = "excluded"\."version", /);
  assert.match(written, /where "sandbox_usage"\."version" = "excluded"\."version" - \$\d+$/);
});
