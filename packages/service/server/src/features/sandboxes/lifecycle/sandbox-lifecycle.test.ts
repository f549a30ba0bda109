import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations, type SandboxId } from '@cloche/contract';
import { LaunchError } from '@cloche/runtime';
import { openSandboxes, type SandboxesWorld } from '../../../../testing/sandboxes.ts';
import { unavailable } from '../../../platform/base/app-error.ts';
import type { TransitionName } from '../../sandbox-records/sandbox.ts';

describe('a sandbox from creation to destruction', () => {
  it('a sandbox from creation to destruction answers at once as creating, then becomes ready, running, idle and destroyed', async () => {
    await using world = await openSandboxes();
    const created = await world.create();
    assert.equal(created.status, 'creating');
    assert.equal(created.templateSlug, 'python-node');
    assert.equal((await world.waitFor(created.id, 'ready')).status, 'ready');

    const running = world.run(created.id, 'sleep 500');
    assert.equal((await world.waitFor(created.id, 'running')).status, 'running');
    await running;
    assert.equal((await world.get(created.id)).status, 'idle');

    const killed = await world.kill(created.id);
    assert.equal(killed.status, 'destroyed');
    assert.equal(killed.destroyedReason, 'user_killed');
    assert.ok(killed.destroyedAt);
    assert.deepEqual(world.driver.instances(), []);
  });

  it('goes from creating to ready when its instance was there before it, and starting is never seen', async () => {
    await using world = await openSandboxes();
    world.driver.launchesAhead = true;
    const { id, status } = await world.create({ env: { A: 'b' } });
    assert.equal(status, 'creating');
    assert.equal((await world.waitFor(id, 'starting')).status, 'ready');
    assert.deepEqual(world.driver.agentOf(id).environment, { A: 'b' });
  });

  it('a sandbox from creation to destruction returns the destroyed record when it is killed again', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const first = await world.kill(id);
    world.clock.advance(1000);
    assert.deepEqual(await world.kill(id), first);
  });

  it('a sandbox from creation to destruction answers every one of many kills at once with the same destroyed record', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const answers = await Promise.all(Array.from({ length: 20 }, () => world.kill(id)));
    for (const answer of answers) assert.deepEqual(answer, answers[0]);
    assert.equal(answers[0]?.status, 'destroyed');
  });

  for (const isWritten of [true, false]) {
    for (const change of ['launch', 'open'] as const) {
      it(`a sandbox from creation to destruction becomes ready when the database does not answer the change "${change}"${isWritten ? ', which it has written' : ''}`, async () => {
        await using world = await openSandboxes();
        const lost = loseAnswers(world, change, { isWritten, error: unavailable('The database does not answer.') });
        const { id } = await world.create();
        await lost;
        assert.equal((await world.waitFor(id, 'ready')).status, 'ready');
        assert.deepEqual(
          world.driver.launches.map(({ generation }) => generation),
          [1],
        );
      });
    }
  }

  it('a sandbox from creation to destruction stays ready when the database has written that it is, and its answer is lost', async () => {
    await using world = await openSandboxes();
    const lost = loseAnswers(world, 'open');
    const { id } = await world.create();
    await lost;
    // Waits until the launch has ended.
    await world.server.stop();
    assert.equal((await world.get(id)).status, 'ready');
    assert.deepEqual(
      world.driver.instances().map(({ sandboxId }) => sandboxId),
      [id],
    );
  });

  it('a sandbox from creation to destruction keeps its instance while the database does not tell whether it is ready, and is launched again if not', async () => {
    await using world = await openSandboxes();
    const { sandboxes } = world.server.core;
    const lost = loseAnswers(world, 'open', { isWritten: false });
    const find = sandboxes.find.bind(sandboxes);
    let looks = 0;
    sandboxes.find = async () => {
      looks += 1;
      throw new Error('the database does not answer');
    };
    const { id } = await world.create();
    await lost;
    // One look before the instance would be stopped, one before the failure would be written.
    await world.until(() => looks === 2);
    assert.equal(world.driver.instances().length, 1);
    sandboxes.find = find;
    await world.until(async () => {
      await world.server.reconcile();
      return (await world.get(id)).status === 'ready';
    });
    await world.server.reconcile();
    assert.deepEqual(
      world.driver.instances().map(({ generation }) => generation),
      [2],
    );
  });

  it('a sandbox from creation to destruction undoes a launch that is under way when it is killed', async () => {
    await using world = await openSandboxes();
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const killed = await world.kill(id);
    assert.equal(killed.status, 'destroyed');
    release();
    assert.deepEqual(world.driver.instances(), []);
    assert.equal((await world.get(id)).status, 'destroyed');
  });

  it('a sandbox from creation to destruction leaves nothing, whenever in its launch it is killed', async () => {
    await using world = await openSandboxes();
    const killedAfter = async (turns: number) => {
      const { id } = await world.create({ env: { A: 'b' } });
      for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
      return world.kill(id);
    };
    for (const launchesAhead of [false, true]) {
      world.driver.launchesAhead = launchesAhead;
      const killed = await Promise.all(Array.from({ length: 60 }, (_, turns) => killedAfter(turns * 3)));
      for (const { status, destroyedReason } of killed) {
        assert.deepEqual({ status, destroyedReason }, { status: 'destroyed', destroyedReason: 'user_killed' });
      }
    }
    assert.deepEqual(world.driver.instances(), []);
    assert.deepEqual(await world.server.reconcile(), { instancesRemoved: 0, sandboxesEnded: 0 });
  });

  it('a sandbox from creation to destruction stays expiring when the host does not answer, and the reconciler finishes it with the first reason', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    world.driver.isDown = true;
    await assert.rejects(world.kill(id), { code: 'unavailable' });
    assert.equal((await world.get(id)).status, 'expiring');
    world.driver.isDown = false;
    const report = await world.server.reconcile();
    assert.equal(report.sandboxesEnded, 1);
    assert.equal((await world.get(id)).destroyedReason, 'user_killed');
  });

  it('a sandbox from creation to destruction gives the environment to the agent before it is ready', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady({ env: { STAGE: 'test' } });
    assert.deepEqual(world.driver.agentOf(id).environment, { STAGE: 'test' });
  });

  it('a sandbox from creation to destruction waits for a host daemon that starts again', async () => {
    await using world = await openSandboxes();
    world.driver.launchErrors.push(new LaunchError('unreachable', 'restarting'));
    const { id } = await world.create();
    assert.equal((await world.waitFor(id, 'ready')).status, 'ready');
  });
});

describe('a sandbox that fails', () => {
  const failing = async (body: unknown, fault?: Error) => {
    const world = await openSandboxes();
    if (fault) world.driver.launchErrors.push(fault);
    const { id } = await world.create(body);
    return { world, id, failed: await world.waitFor(id, 'ready') };
  };

  for (const mode of ['allowlist', 'denylist'] as const) {
    it(`a sandbox that fails fails with a reason when the host cannot enforce ${mode}, and nothing is launched with less`, async () => {
      const { world, failed } = await failing({ networkPolicy: { mode, hosts: ['example.com'] } });
      await using _ = world;
      assert.equal(failed.status, 'failed');
      assert.match(failed.failureReason ?? '', new RegExp(`cannot enforce the network mode "${mode}"`));
      assert.deepEqual(failed.networkPolicy, { mode, hosts: ['example.com'] });
      assert.deepEqual(world.driver.instances(), []);
      assert.equal(world.driver.launches.length, 1);
    });
  }

  it('says that a mode which the host can enforce could not be enforced just then', async () => {
    const { world, failed } = await failing({}, new LaunchError('unsupported', 'the egress gateway does not answer'));
    await using _ = world;
    assert.match(
      failed.failureReason ?? '',
      /"unrestricted" could not be enforced when the sandbox was launched.*Try again/,
    );
  });

  it('a sandbox that fails says why without anything of the host inside', async () => {
    const { world, failed } = await failing({}, new LaunchError('failed', 'mount /var/lib/cloche: EINVAL'));
    await using _ = world;
    assert.equal(failed.failureReason, 'The sandbox could not be launched.');
  });

  it('a sandbox that fails takes no work and says so', async () => {
    const { world, id } = await failing({}, new LaunchError('no_capacity', 'full'));
    await using _ = world;
    await assert.rejects(world.run(id, 'print x'), { code: 'sandbox_failed' });
  });

  it('a sandbox that fails becomes destroyed when it is killed, and keeps its failure reason', async () => {
    const { world, id, failed } = await failing({}, new LaunchError('failed', 'x'));
    await using _ = world;
    const killed = await world.kill(id);
    assert.equal(killed.status, 'destroyed');
    assert.equal(killed.failureReason, failed.failureReason);
  });

  it('a sandbox that fails fails when it is not ready in time, and leaves no instance', async () => {
    await using world = await openSandboxes({ launchTimeoutMs: 30 });
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const failed = await world.waitFor(id, 'ready');
    assert.equal(failed.status, 'failed');
    assert.match(failed.failureReason ?? '', /within 30 ms/);
    release();
    assert.deepEqual(world.driver.instances(), []);
  });
});

describe('waiting for a status', () => {
  it('waiting for a status ends when the time is up, with the sandbox as it is', async () => {
    await using world = await openSandboxes();
    const release = world.driver.holdLaunches();
    const { id } = await world.create();
    const query = { waitFor: 'ready', waitMs: 20 };
    const { sandbox } = await world.call(operations.getSandbox, { params: { sandboxId: id }, query });
    assert.equal(sandbox.status, 'creating');
    release();
  });

  it('waiting for a status ends when the status cannot be reached any more', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    const waiting = world.waitFor(id, 'running');
    await world.kill(id);
    assert.match((await waiting).status, /^(expiring|destroyed)$/);
  });

  it('waiting for a status counts a used sandbox as ready', async () => {
    await using world = await openSandboxes();
    const id = await world.createReady();
    await world.run(id, 'print x');
    assert.equal((await world.waitFor(id, 'ready')).status, 'idle');
  });

  it('waiting for a status answers not_found for an unknown sandbox', async () => {
    await using world = await openSandboxes();
    await assert.rejects(world.get('sbx_none' as SandboxId), { code: 'not_found' });
  });
});

/** Has the answer of the database to the next change of that name lost. Resolves when it was. */
function loseAnswers(
  world: SandboxesWorld,
  name: TransitionName,
  { isWritten = true, error = new Error('the connection was lost') } = {},
): Promise<void> {
  const { sandboxes } = world.server.core;
  const transition = sandboxes.transition.bind(sandboxes);
  return new Promise((resolve) => {
    sandboxes.transition = async (record, change, ...more) => {
      if (change !== name) return transition(record, change, ...more);
      if (isWritten) await transition(record, change, ...more);
      sandboxes.transition = transition;
      resolve();
      throw error;
    };
  });
}
