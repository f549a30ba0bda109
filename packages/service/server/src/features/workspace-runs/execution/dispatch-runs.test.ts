import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type OrgId, operations, type WorkspaceRunId } from '@cloche/contract';
import { LaunchError } from '@cloche/runtime';
import { credentialOf, DEFAULT_PROJECT, ORG, OTHER_PROJECT } from '../../../../testing/seeded-organizations.ts';
import { openRuns, type RunsWorld } from '../../../../testing/workspace-runs.ts';
import { RunQueue } from './run-queue.ts';

const FOREIGN = { credential: credentialOf('org_2' as OrgId) };

/** Returns the run of each sandbox. Sandboxes of runs that are launched at the same time have no order. */
async function launched(world: RunsWorld): Promise<(string | undefined)[]> {
  const sandboxes = await world.db.selectFrom('sandboxes').select('metadata').execute();
  return sandboxes.map(({ metadata }) => JSON.parse(metadata).workspaceRun);
}

const finishedAll = (world: RunsWorld, ids: readonly WorkspaceRunId[]) =>
  Promise.all(ids.map((id) => world.finished(id)));

describe('queued workspace runs', () => {
  it('queued workspace runs of a project start in their order, while projects and organizations alternate', async ({
    mock,
  }) => {
    const { claimFirst } = RunQueue.prototype;
    const order: WorkspaceRunId[] = [];
    mock.method(
      RunQueue.prototype,
      'claimFirst',
      async function (this: RunQueue, ...claim: Parameters<typeof claimFirst>) {
        const claimed = await claimFirst.apply(this, claim);
        if (typeof claimed === 'object') order.push(claimed.id);
        return claimed;
      },
    );
    await using world = await openRuns();
    const release = world.driver.holdLaunches();
    const many: WorkspaceRunId[] = [];
    for (let index = 0; index < 20; index += 1) many.push(await world.startRun('print x'));
    // As many as are launched at a time have had their turn.
    await world.until(() => world.driver.launches.length === 8);
    const other = await world.startRun('print x', { projectId: OTHER_PROJECT });
    const foreign = await world.startRun('print x', {}, FOREIGN);
    release();
    await finishedAll(world, many);
    await world.until(() => order.length === 22);
    assert.deepEqual(
      order.filter((id) => many.includes(id)),
      many,
    );
    assert.deepEqual(new Set(order.slice(8, 11)), new Set([foreign, other, many[8]]));
    assert.ok(order.indexOf(foreign) < order.indexOf(many[8] ?? assert.fail()));
  });

  it('queued workspace runs wait while the quota of concurrent runs has no room, and never exceed it', async () => {
    await using world = await openRuns();
    await world.limits.setOrganization(ORG, { concurrentWorkspaceRuns: 2 });
    let most = 0;
    let active = 0;
    world.unpack = async () => {
      active += 1;
      most = Math.max(most, active);
      await new Promise((resolve) => setTimeout(resolve, 5));
      active -= 1;
    };
    await world.startServer();
    const ids: WorkspaceRunId[] = [];
    for (let index = 0; index < 8; index += 1) ids.push(await world.startRun('print x'));
    const quota = async () =>
      (await world.quotas.list(ORG)).find(({ quota: name }) => name === 'concurrentWorkspaceRuns');
    assert.ok(((await quota())?.used ?? 0) <= 2);
    const runs = await finishedAll(world, ids);
    assert.deepEqual(new Set(runs.map(({ status }) => status)), new Set(['succeeded']));
    assert.ok(most <= 2, String(most));
    assert.equal((await quota())?.used, 0);
  });

  it('queued workspace runs wait while the quota of sandboxes is used up, without an event about it', async () => {
    await using world = await openRuns();
    await world.limits.setOrganization(ORG, { liveSandboxes: 1 });
    const sandboxId = await world.createReady();
    const id = await world.startRun('print x');
    await world.until(async () => (await launched(world)).length === 1);
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal((await world.getRun(id)).status, 'queued');
    await world.kill(sandboxId);
    assert.equal((await world.finished(id)).status, 'succeeded');
    const refused = await world.db.selectFrom('events').select('id').where('type', '=', 'quota.exceeded').execute();
    assert.deepEqual(refused, []);
  });

  it('queued workspace runs that need more than a quota has at all are failed, and hold up nothing', async () => {
    await using world = await openRuns();
    await world.limits.setOrganization(ORG, { liveCpu: 1 });
    const large = await world.startRun('print x', { resources: { cpu: 2 } });
    const small = await world.startRun('print x');
    const run = await world.finished(large);
    assert.deepEqual([run.status, run.error?.code], ['failed', 'sandbox_failed']);
    assert.match(run.error?.message ?? '', /liveCpu/);
    assert.equal((await world.finished(small)).status, 'succeeded');
  });

  it('queued workspace runs wait while no host has room, each with a new sandbox for the next attempt', async () => {
    await using world = await openRuns();
    world.driver.launchErrors.push(new LaunchError('no_capacity', 'full'), new LaunchError('no_capacity', 'full'));
    const id = await world.startRun('print x');
    await world.until(async () => (await world.getRun(id)).waitsFor === 'capacity');
    await world.until(async () => {
      world.clock.advance(1000);
      return (await world.getRun(id)).status === 'succeeded';
    });
    assert.deepEqual(await launched(world), [id, id, id]);
    const { error, waitsFor } = await world.getRun(id);
    assert.deepEqual([error, waitsFor], [undefined, undefined]);
  });
});

describe('a workspace run whose sandbox is not ready in time', () => {
  it('a workspace run whose sandbox is not ready in time gets another sandbox', async () => {
    await using world = await openRuns({ launchTimeoutMs: 30 });
    const release = world.driver.holdLaunches();
    const id = await world.startRun('print x');
    const isTooSlow = async () =>
      (await world.db.selectFrom('sandboxes').select('status').execute())[0]?.status === 'failed';
    await world.until(isTooSlow);
    release();
    await endsInTime(world, id);
    const { status, error } = await world.getRun(id);
    assert.deepEqual([status, error], ['succeeded', undefined]);
    // On a busy machine, the second one may not be ready within 30 ms either.
    const launches = await launched(world);
    assert.ok(launches.length >= 2, `${launches}`);
  });

  it('a workspace run whose sandbox is not ready in time fails after three attempts', async () => {
    await using world = await openRuns({ launchTimeoutMs: 30 });
    world.driver.holdLaunches();
    const id = await world.startRun('print x');
    await endsInTime(world, id);
    const { status, error } = await world.getRun(id);
    assert.deepEqual([status, error?.code], ['failed', 'sandbox_failed']);
    assert.match(error?.message ?? '', /not ready within 30 ms/);
    assert.deepEqual(await launched(world), [id, id, id]);
  });

  /** Resolves when the run has finished, which waits between attempts. */
  async function endsInTime(world: RunsWorld, id: WorkspaceRunId): Promise<void> {
    await world.until(async () => {
      world.clock.advance(1000);
      return (await world.getRun(id)).finishedAt !== undefined;
    });
  }
});

describe('a workspace run whose server dies', () => {
  it('a workspace run whose server dies goes on with the next server, in the same sandbox, with the same command and without repeated output', async () => {
    await using world = await openRuns();
    const id = await world.startRun('print one; sleep 300; print two');
    const { sandboxId } = await world.running(id);
    await world.until(async () => (await world.eventsOf(id)).some(({ type }) => type === 'stdout'));
    // The first server goes on as one that was cut off: the next adopts the run when the claim has ended.
    await world.startServer();
    world.clock.advance(31_000);
    const run = await world.finished(id);
    assert.deepEqual([run.status, run.sandboxId], ['succeeded', sandboxId]);
    const output = (await world.eventsOf(id)).filter(({ type }) => type === 'stdout').map(({ data }) => data);
    assert.deepEqual(output, ['one\n', 'two\n']);
    assert.equal(world.driver.launches.length, 1);
    assert.equal((await world.listCommands(sandboxId)).length, 1);
  });

  it('a workspace run whose server dies goes on with the next server in each of its steps', async () => {
    for (const step of ['launching', 'unpacking', 'commanding', 'exporting'] as const) {
      await using world = await openRuns();
      const reached = Promise.withResolvers<void>();
      let held = true;
      const release = step === 'launching' ? world.driver.holdLaunches() : () => undefined;
      world.unpack = async (_run, _files, signal) => {
        if (step !== 'unpacking' || !held) return;
        held = false;
        reached.resolve();
        await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      };
      const id = await world.startRun('print x; sleep 50', { artifacts: ['*'] });
      if (step === 'launching') await world.until(() => world.driver.launches.length === 1);
      else if (step === 'unpacking') await reached.promise;
      else await world.until(async () => (await stepOf(world, id)) === step || (await stepOf(world, id)) === null);
      await world.servers[0]?.stop();
      assert.ok(['queued', 'running', 'succeeded'].includes((await world.getRun(id)).status));
      const next = world.startServer();
      release();
      await next;
      const run = await world.finished(id);
      assert.equal(run.status, 'succeeded', step);
      const output = (await world.eventsOf(id)).filter(({ type }) => type === 'stdout').map(({ data }) => data);
      assert.deepEqual(output, ['x\n'], step);
      assert.equal(new Set(world.driver.launches.map(({ sandboxId }) => sandboxId)).size, 1, step);
      assert.equal((await world.call(operations.listSandboxes)).data.length, 0, step);
    }
  });

  it('a workspace run whose server dies finishes although its host does not answer, and its sandbox ends when the host does', async () => {
    await using world = await openRuns();
    const id = await world.startRun('print x; sleep 50');
    const { sandboxId } = await world.running(id);
    world.driver.stuck.add(sandboxId);
    assert.equal((await world.finished(id)).status, 'succeeded');
    assert.equal((await world.get(sandboxId)).status, 'expiring');
    world.driver.stuck.clear();
    await world.until(async () => (await world.get(sandboxId)).status === 'destroyed');
    await world.until(async () => (await stepOf(world, id)) === null);
  });
});

async function stepOf(world: RunsWorld, id: string): Promise<string | null> {
  const query = world.db.selectFrom('workspace_runs').select('step').where('id', '=', id);
  return (await query.executeTakeFirstOrThrow()).step;
}

describe('the upkeep of workspace runs', () => {
  it('the upkeep of workspace runs cancels runs that were not started in a week, and forgets finished ones and their events after 30 days', async () => {
    await using world = await openRuns();
    const unstarted = await world.archived({ command: 'x', projectId: DEFAULT_PROJECT });
    const finished = await world.startRun('print x');
    await world.finished(finished);
    const live = await world.startRun('hang');
    await world.running(live);
    world.clock.advance(8 * 86_400_000);
    await world.startServer();
    assert.equal((await world.finished(unstarted)).status, 'canceled');
    assert.equal((await world.getRun(finished)).status, 'succeeded');
    world.clock.advance(31 * 86_400_000);
    await world.startServer();
    await world.until(async () => (await world.call(operations.listWorkspaceRuns)).data.length === 1);
    assert.equal((await world.getRun(live)).status, 'running');
    await world.until(async () => {
      const logs = await world.db.selectFrom('sequence_logs').select('id').execute();
      return logs.length === 1 && logs[0]?.id === live;
    });
  });
});
