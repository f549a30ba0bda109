/** Pauses that keep files alone, whose server ends, stands still or fails at any step. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import { AgentError, LaunchError } from '@cloche/runtime';
import { LAG_MS, leave, openPauses, passIdle, pause, pauseEvents, recordOf, resume } from '../../../testing/pauses.ts';
import type { SandboxesWorld } from '../../../testing/sandboxes.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';

type FakePark = SandboxesWorld['driver']['kept']['park'];

const DROP = { memory: 'drop' } as const;
const NEVER = new AbortController().signal;
const name = (sandboxId: SandboxId) => ({ sandboxId, generation: 1 });

interface Step {
  readonly title: string;
  /** Brings the sandbox to where the server ends. */
  readonly reach: (world: SandboxesWorld, id: SandboxId, owner: string) => Promise<void>;
  readonly becomes: 'lost' | 'awake';
}

const parkBegun = (world: SandboxesWorld, id: SandboxId, owner: string) =>
  leave(world, id, 'beginPark', { owner, token: 'token', pausedBy: 'request', lostReason: 'asked' });
const dropBegun = async (world: SandboxesWorld, id: SandboxId, owner: string) => {
  await pause(world, id);
  await leave(world, id, 'beginDrop', { owner, lostReason: 'asked' });
};
const bootBegun = async (world: SandboxesWorld, id: SandboxId, owner: string) => {
  await pause(world, id, DROP);
  await leave(world, id, 'beginBoot', { owner, generation: 2 });
};

const STEPS: readonly Step[] = [
  { title: 'the record says that its disk is about to be kept', reach: parkBegun, becomes: 'lost' },
  {
    title: 'the disk is kept and the instance has ended',
    async reach(world, id, owner) {
      await parkBegun(world, id, owner);
      await world.driver.kept.park(name(id));
    },
    becomes: 'lost',
  },
  { title: 'the record says that its memory is about to be dropped', reach: dropBegun, becomes: 'lost' },
  {
    title: 'the memory is dropped',
    async reach(world, id, owner) {
      await dropBegun(world, id, owner);
      await world.driver.kept.park(name(id));
    },
    becomes: 'lost',
  },
  { title: 'the record says that its files are about to be booted', reach: bootBegun, becomes: 'awake' },
  {
    title: 'the next generation is launched',
    async reach(world, id, owner) {
      await bootBegun(world, id, owner);
      const spec = world.driver.launches.find(({ sandboxId }) => sandboxId === id)?.spec;
      assert.ok(spec);
      const source = { ...spec.source, kind: 'parked', generation: 1 } as const;
      await world.driver.launch(id, 2, { ...spec, source }, NEVER);
    },
    becomes: 'awake',
  },
];

/** The jobs and requests that meet the sandbox after its server has ended. */
const FINDERS = {
  'the next pass': async (world: SandboxesWorld, id: SandboxId) => {
    await world.server.reconcile();
    // Where several servers share the database, a job may have begun it before.
    await world.until(async () => !factsOf(await recordOf(world, id)).isMoving);
  },
  'a run': (world: SandboxesWorld, id: SandboxId) => world.run(id, 'print x').then(() => undefined),
  'a pause': (world: SandboxesWorld, id: SandboxId) => pause(world, id, DROP).then(() => undefined),
  'a deletion': (world: SandboxesWorld, id: SandboxId) => world.kill(id).then(() => undefined),
};

describe('a server that ends at a step of a pause without memory', () => {
  for (const owner of ['srv_dead', 'srv_1']) {
    for (const { title, reach, becomes } of STEPS) {
      it(`a server that ends at a step of a pause without memory leaves a sandbox that others finish: ${title}, by ${owner}`, async () => {
        for (const [finder, find] of Object.entries(FINDERS)) {
          await using world = await openPauses();
          const id = await world.createReady();
          const { disk } = world.driver.agentOf(id);
          await reach(world, id, owner);
          await world.crash();
          await find(world, id);
          const { paused, status } = await world.get(id);
          if (finder === 'a deletion') {
            const kept = await world.driver.kept.parked();
            assert.deepEqual([status, world.driver.instances(), kept], ['destroyed', [], []], finder);
            continue;
          }
          const isLost = finder === 'a pause' || (finder === 'the next pass' && becomes === 'lost');
          assert.deepEqual([paused?.memory, world.driver.instances().length], isLost ? ['lost', 0] : [undefined, 1]);
          await world.run(id, 'print x');
          assert.equal(world.driver.agentOf(id).disk, disk, finder);
          assert.equal((await world.driver.kept.parked()).length, 1, 'one disk');
        }
      });
    }
  }
});

describe('a host that fails during a pause without memory', () => {
  /** Replaces the parking of the host until the returned function is called. */
  function failing(world: SandboxesWorld, fault: (park: FakePark) => FakePark): () => void {
    const { kept } = world.driver;
    const park = kept.park.bind(kept);
    kept.park = fault(park);
    return () => {
      kept.park = park;
    };
  }

  it('a host that fails during a pause without memory is asked again, if it may have ended the instance', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const mend = failing(world, (park) => async (...parts) => {
      await park(...parts);
      throw new LaunchError('unreachable', 'the answer was lost');
    });
    await assert.rejects(pause(world, id, DROP), { code: 'unavailable' });
    mend();
    await world.server.reconcile();
    assert.equal((await world.get(id)).paused?.memory, 'lost');
    assert.deepEqual(await pauseEvents(world), ['sandbox.paused']);
  });

  it('a host that fails during a pause without memory leaves the sandbox as it was, if it goes on', async () => {
    await using world = await openPauses();
    const [live, frozen] = [await world.createReady(), await world.createReady()];
    await world.run(live, 'set a 1');
    const paused = await pause(world, frozen);
    failing(world, () => async () => {
      throw new LaunchError('failed', 'the disk could not be written');
    });
    for (const id of [live, frozen]) await assert.rejects(pause(world, id, DROP), { code: 'unavailable' });
    assert.equal((await world.run(live, 'get a')).stdout, '1\n');
    assert.deepEqual(await world.get(frozen), paused);
  });

  it('a host that fails during a pause without memory and has neither instance nor disk ends the sandbox', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    failing(world, () => async () => {
      throw new AgentError('gone', 'no instance');
    });
    await assert.rejects(pause(world, id, DROP));
    assert.equal((await world.get(id)).destroyedReason, 'platform_cleanup');
  });
});

describe('a sandbox that ends while it is paused without memory', () => {
  it('a sandbox that ends while it is paused without memory leaves neither instance nor disk', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const [reached, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const { kept } = world.driver;
    const park = kept.park.bind(kept);
    kept.park = async (...parts) => {
      const parked = await park(...parts);
      reached.resolve();
      await goOn.promise;
      return parked;
    };
    const paused = pause(world, id, DROP);
    paused.catch(() => undefined);
    await reached.promise;
    await world.kill(id);
    goOn.resolve();
    await assert.rejects(paused, { code: 'sandbox_destroyed' });
    assert.deepEqual([world.driver.instances(), await kept.parked()], [[], []]);
  });

  it('a sandbox that ends while it is booted from its files leaves neither instance nor disk', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await pause(world, id, DROP);
    const release = world.driver.holdLaunches();
    const woken = resume(world, id);
    woken.catch(() => undefined);
    await world.until(async () => (await recordOf(world, id)).pauseState === 'booting');
    await world.kill(id);
    release();
    await assert.rejects(woken, { code: 'sandbox_destroyed' });
    await world.until(async () => world.driver.instances().length === 0);
    assert.deepEqual(await world.driver.kept.parked(), []);
  });
});

describe('a policy that drops memory', () => {
  it('a policy that drops memory keeps files alone when nothing uses the sandbox, and at its expiry', async () => {
    for (const [policy, by] of [
      [{ afterIdleMs: 10_000 }, 'idle'],
      [{ onExpiry: true }, 'expiry'],
    ] as const) {
      await using world = await openPauses();
      const id = await world.createReady({ ttlMs: 60_000, pause: { ...policy, ...DROP } });
      if (by === 'idle') await passIdle(world, 10_000 + LAG_MS);
      else world.clock.advance(60_000);
      await world.until(async () => (await world.get(id)).paused !== undefined);
      const { paused } = await world.get(id);
      assert.deepEqual([paused?.by, paused?.memory, paused?.lostReason], [by, 'lost', 'asked']);
      assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
    }
  });

  it('a policy that drops memory is refused with visitors that wake, and where the host keeps no disks', async () => {
    await using world = await openPauses();
    const refused = { code: 'invalid_request' };
    await assert.rejects(world.create({ pause: { ...DROP, wake: 'traffic' } }), refused);
    world.driver.parking = undefined;
    await assert.rejects(world.create({ pause: { ...DROP, onExpiry: true } }), {
      code: 'conflict',
      details: { reason: 'memory_unsupported' },
    });
  });
});
