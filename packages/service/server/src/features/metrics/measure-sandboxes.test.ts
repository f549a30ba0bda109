import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations } from '@cloche/contract';
import { openSandboxes, type SandboxesWorld } from '../../../testing/sandboxes.ts';
import { OTHER_PROJECT } from '../../../testing/seeded-organizations.ts';

const MEBIBYTE = 1024 * 1024;

async function metricsOf(world: SandboxesWorld, sandboxId: string, query: Record<string, string> = {}) {
  const { metrics } = await world.call(operations.getSandboxMetrics, { params: { sandboxId }, query });
  return metrics;
}

describe('the metrics of a sandbox', () => {
  it('the metrics of a sandbox are what its host measures, each value with its limit', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    world.driver.spend(sandboxId, { egressBytes: 5, ingressBytes: 6 });
    const { resources } = (await world.call(operations.getSandbox, { params: { sandboxId } })).sandbox;
    const { now, limits, samples, intervalMs } = await metricsOf(world, sandboxId);
    const values = { cpu: 0.5, memoryBytes: 2 ** 20, diskBytes: 2 ** 16, inodes: 20, processes: 2 };
    assert.deepEqual(now, { ...values, at: now.at, networkBytes: { egress: 5, ingress: 6 } });
    assert.deepEqual(limits, {
      cpu: resources.cpu,
      memoryBytes: resources.memoryMb * MEBIBYTE,
      diskBytes: 2 ** 27,
      inodes: 2 ** 12,
      processes: resources.pids,
    });
    assert.equal(intervalMs, 10_000);
    assert.equal(Date.parse(now.at) - Date.parse(samples[0]?.at ?? ''), intervalMs);
  });

  it('the metrics of a sandbox have the samples from a time on', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    const since = (ms: number) => metricsOf(world, sandboxId, { from: new Date(Date.now() + ms).toISOString() });
    assert.equal((await since(-60_000)).samples.length, 1);
    assert.deepEqual((await since(60_000)).samples, []);
    assert.equal((await metricsOf(world, sandboxId, { from: '1960-01-01' })).samples.length, 1);
    await assert.rejects(metricsOf(world, sandboxId, { from: 'yesterday' }), { code: 'invalid_request' });
  });

  it('the metrics of a sandbox wait for a sandbox that is being created, and do not count as use of it', async () => {
    await using world = await openSandboxes();
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const metrics = metricsOf(world, id);
    release();
    assert.equal((await metrics).sandboxId, id);
    assert.equal((await world.call(operations.getSandbox, { params: { sandboxId: id } })).sandbox.status, 'ready');
  });

  it('the metrics of a sandbox end with the sandbox, also with one that its host has lost', async () => {
    await using world = await openSandboxes();
    const killed = await world.createReady();
    await world.kill(killed);
    await assert.rejects(metricsOf(world, killed), { code: 'sandbox_destroyed' });
    const lost = await world.createReady();
    world.driver.lose(lost);
    await assert.rejects(metricsOf(world, lost), { code: 'sandbox_destroyed' });
  });

  it('the metrics of a sandbox are unavailable while the host does not answer', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    world.driver.isDown = true;
    await assert.rejects(metricsOf(world, sandboxId), { code: 'unavailable' });
    await assert.rejects(world.call(operations.listSandboxMetrics, {}), { code: 'unavailable' });
  });
});

describe('the metrics of a paused sandbox', () => {
  it('the metrics of a paused sandbox are what it holds without processor use, do not wake it, and end with the pause', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    const listed = async () => (await world.call(operations.listSandboxMetrics, {})).data[0];
    assert.equal((await metricsOf(world, sandboxId)).paused, undefined);
    await world.call(operations.pauseSandbox, { params: { sandboxId }, body: {} });
    for (const { now, paused } of [await metricsOf(world, sandboxId), (await listed()) ?? assert.fail()]) {
      assert.deepEqual([now.cpu, now.memoryBytes, paused], [0, 2 ** 20, true]);
    }
    assert.ok((await world.get(sandboxId)).paused);
    await world.call(operations.resumeSandbox, { params: { sandboxId }, body: {} });
    assert.deepEqual([(await listed())?.now.cpu, (await listed())?.paused], [0.5, undefined]);
  });

  it('the metrics of a paused sandbox are zeros when its host has no instance of it', async () => {
    await using world = await openSandboxes();
    const sandboxId = await world.createReady();
    await world.call(operations.pauseSandbox, { params: { sandboxId }, body: {} });
    world.driver.measure = async () => [];
    world.driver.history = async () => ({ samples: [] });
    const [one] = (await world.call(operations.listSandboxMetrics, {})).data;
    assert.deepEqual([one?.sandboxId, one?.now.memoryBytes, one?.paused], [sandboxId, 0, true]);
    assert.equal((await metricsOf(world, sandboxId)).now.memoryBytes, 0);
  });
});

describe('the list of metrics', () => {
  it('the list of metrics has the newest ready sandboxes up to its limit, and says whether there are more', async () => {
    await using world = await openSandboxes();
    const list = (query: Record<string, unknown> = {}) => world.call(operations.listSandboxMetrics, { query });
    assert.deepEqual(await list(), { data: [], hasMore: false });
    const old = await world.createReady();
    const ended = await world.createReady();
    await world.kill(ended);
    const young = await world.createReady();
    const release = world.driver.holdLaunches();
    await world.create();
    const ids = (all: Awaited<ReturnType<typeof list>>) => all.data.map(({ sandboxId }) => sandboxId);
    assert.deepEqual(ids(await list()), [young, old]);
    const newest = await list({ limit: 1 });
    assert.deepEqual([ids(newest), newest.hasMore], [[young], true]);
    assert.deepEqual(ids(await list({ projectId: OTHER_PROJECT })), []);
    assert.equal((await list()).data[0]?.now.cpu, 0.5);
    release();
  });

  it('the list of metrics leaves out a sandbox that its host has lost', async () => {
    await using world = await openSandboxes();
    const [lost, kept] = [await world.createReady(), await world.createReady()];
    world.driver.lose(lost);
    const { data } = await world.call(operations.listSandboxMetrics, {});
    assert.deepEqual(
      data.map(({ sandboxId }) => sandboxId),
      [kept],
    );
  });
});
