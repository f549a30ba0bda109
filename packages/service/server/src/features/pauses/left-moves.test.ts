/** Pauses and wakes whose server ends, stands still or fails at any step. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SandboxId } from '@cloche/contract';
import { AgentError, LaunchError } from '@cloche/runtime';
import {
  freezingOf,
  isFrozen,
  leave,
  openPauses,
  pause,
  pauseEvents,
  recordOf,
  resume,
} from '../../../testing/pauses.ts';
import type { SandboxesWorld } from '../../../testing/sandboxes.ts';
import { factsOf } from '../sandbox-status/status-facts.ts';

interface Step {
  readonly title: string;
  /** Brings the sandbox to where the server ends. */
  readonly reach: (world: SandboxesWorld, id: SandboxId, owner: string) => Promise<void>;
  readonly becomes: 'paused' | 'awake';
}

const closeGate = async (world: SandboxesWorld, id: SandboxId) =>
  void (await world.driver.agentOf(id).client().pause('token', { force: false }, NEVER));
const NEVER = new AbortController().signal;
const name = (sandboxId: SandboxId) => ({ sandboxId, generation: 1 });
const pauseBegun = (world: SandboxesWorld, id: SandboxId, owner: string) =>
  leave(world, id, 'beginPause', { owner, token: 'token' });

const STEPS: readonly Step[] = [
  { title: 'P1, the record says that it is about to be paused', reach: pauseBegun, becomes: 'awake' },
  {
    title: 'P2, the gate is closed',
    async reach(world, id, owner) {
      await pauseBegun(world, id, owner);
      await closeGate(world, id);
    },
    becomes: 'awake',
  },
  {
    title: 'P3, the instance is frozen',
    async reach(world, id, owner) {
      await pauseBegun(world, id, owner);
      await closeGate(world, id);
      await freezingOf(world).freeze(name(id), NEVER);
    },
    becomes: 'paused',
  },
  {
    title: 'P4, the record says that it is paused',
    reach: async (world, id) => void (await pause(world, id)),
    becomes: 'paused',
  },
  {
    title: 'W1, the record says that it is about to wake',
    async reach(world, id, owner) {
      await pause(world, id);
      await leave(world, id, 'beginWake', { owner });
    },
    becomes: 'awake',
  },
  {
    title: 'W2, the instance is thawed',
    async reach(world, id, owner) {
      await pause(world, id);
      await leave(world, id, 'beginWake', { owner });
      await freezingOf(world).thaw(name(id), NEVER);
    },
    becomes: 'awake',
  },
  {
    title: 'W3, the gate is open',
    async reach(world, id, owner) {
      await pause(world, id);
      await leave(world, id, 'beginWake', { owner });
      await freezingOf(world).thaw(name(id), NEVER);
      const { pauseToken } = await recordOf(world, id);
      const woken = { entropy: '', now: 0 };
      await world.driver
        .agentOf(id)
        .client()
        .resume(pauseToken ?? '', woken, NEVER);
    },
    becomes: 'awake',
  },
  {
    title: 'W5, the record says that it is awake',
    async reach(world, id) {
      await pause(world, id);
      await resume(world, id);
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
  'a pause': (world: SandboxesWorld, id: SandboxId) => pause(world, id).then(() => undefined),
  'a deletion': (world: SandboxesWorld, id: SandboxId) => world.kill(id).then(() => undefined),
};

describe('a server that ends at a step of a pause or a wake', () => {
  for (const owner of ['srv_dead', 'srv_1']) {
    for (const { title, reach, becomes } of STEPS) {
      it(`a server that ends at a step of a pause or a wake leaves a sandbox that others finish: ${title}, by ${owner}`, async () => {
        for (const [finder, find] of Object.entries(FINDERS)) {
          await using world = await openPauses();
          const id = await world.createReady();
          await world.run(id, 'set a 1');
          await reach(world, id, owner);
          await world.crash();
          await find(world, id);
          const { paused, status } = await world.get(id);
          const isPaused = finder === 'a pause' || (finder === 'the next pass' && becomes === 'paused');
          if (finder === 'a deletion') {
            assert.deepEqual([status, world.driver.instances()], ['destroyed', []], finder);
            continue;
          }
          assert.deepEqual([paused !== undefined, isFrozen(world, id)], [isPaused, isPaused], finder);
          assert.equal((await world.run(id, 'get a')).stdout, '1\n', finder);
          assert.ok(!isFrozen(world, id));
        }
      });
    }
  }

  it('a server that ends at a step of a pause or a wake is waited for while it lives', async () => {
    await using world = await openPauses();
    await using other = await world.beside('srv_2');
    const id = await world.createReady();
    await pauseBegun(world, id, 'srv_2');
    await world.server.reconcile();
    assert.equal((await recordOf(world, id)).pauseState, 'pausing');
    const run = world.run(id, 'print x');
    await other.loseLease();
    assert.equal((await run).stdout, 'x\n');
  });
});

describe('a server that stands still during a pause', () => {
  it('a server that stands still during a pause freezes nothing that another server has given up', async () => {
    await using world = await openPauses();
    await using other = await world.beside('srv_2');
    const id = await world.createReady();
    const [reached, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const freezing = freezingOf(world);
    const freeze = freezing.freeze.bind(freezing);
    freezing.freeze = async (...parts) => {
      reached.resolve();
      await goOn.promise;
      return freeze(...parts);
    };
    const paused = pause(world, id);
    await reached.promise;
    freezing.freeze = freeze;
    await world.loseLease();
    await other.server.reconcile();
    assert.equal((await recordOf(other, id)).pauseState, undefined);
    await world.renewLease();
    goOn.resolve();
    // It finds the record changed, undoes its freeze, and pauses again.
    assert.ok((await paused).paused);
    assert.ok(isFrozen(world, id));
    assert.deepEqual(await pauseEvents(world), ['sandbox.paused']);
    assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
  });

  it('a server that stands still during a pause and then ends has its freeze undone by the next pass', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await pause(world, id);
    await resume(world, id);
    await freezingOf(world).freeze(name(id), NEVER);
    await world.server.reconcile();
    assert.ok(!isFrozen(world, id));
    assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
  });
});

describe('a pause that fails and cannot be undone', () => {
  it('a pause that fails and cannot be undone because the host is away is finished soon after its return, without a request', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const freezing = freezingOf(world);
    const freeze = freezing.freeze.bind(freezing);
    freezing.freeze = async (...parts) => {
      await freeze(...parts);
      freezing.freeze = freeze;
      world.driver.isDown = true;
      throw new LaunchError('unreachable', 'the host is away');
    };
    await assert.rejects(pause(world, id), { code: 'unavailable' });
    world.driver.isDown = false;
    await world.until(async () => !factsOf(await recordOf(world, id)).isMoving);
    assert.equal((await world.get(id)).paused !== undefined, isFrozen(world, id));
    assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
  });
});

describe('a wake that fails and cannot be undone', () => {
  it('a wake that fails and cannot be undone because the host is away does not leave a paused sandbox that goes on', async () => {
    for (const finder of ['the server itself', 'the next pass of another']) {
      await using world = await openPauses();
      const id = await world.createReady();
      await pause(world, id);
      const freezing = freezingOf(world);
      const thaw = freezing.thaw.bind(freezing);
      freezing.thaw = async (...parts) => {
        await thaw(...parts);
        freezing.thaw = thaw;
        world.driver.isDown = true;
        throw new LaunchError('unreachable', 'the host is away');
      };
      await assert.rejects(resume(world, id), { code: 'unavailable' });
      assert.ok((await world.get(id)).paused);
      if (finder !== 'the server itself') await world.crash().catch(() => undefined);
      world.driver.isDown = false;
      if (finder !== 'the server itself') await world.server.reconcile();
      await world.until(() => isFrozen(world, id));
      assert.ok((await world.get(id)).paused);
      assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
    }
  });
});

describe('a wake that fails', () => {
  const FAULTS: Record<string, (world: SandboxesWorld, id: SandboxId) => () => void> = {
    'the host does not answer': (world) => {
      world.driver.isDown = true;
      return () => {
        world.driver.isDown = false;
      };
    },
    'the instance does not thaw': (world) => {
      const freezing = freezingOf(world);
      const thaw = freezing.thaw.bind(freezing);
      freezing.thaw = async () => {
        throw new LaunchError('failed', 'the group does not thaw');
      };
      return () => {
        freezing.thaw = thaw;
      };
    },
    'the host has no memory for it': (world) => {
      const freezing = freezingOf(world);
      const thaw = freezing.thaw.bind(freezing);
      freezing.thaw = async () => {
        throw new LaunchError('no_capacity', '100 MiB of memory are lacking');
      };
      return () => {
        freezing.thaw = thaw;
      };
    },
    'the agent refuses to go on': (world) => {
      const { connect } = world.driver;
      const refused = async (...parts: Parameters<typeof connect>) => ({
        ...(await connect.apply(world.driver, parts)),
        resume: async () => {
          throw new AgentError('internal', 'the gate is stuck');
        },
      });
      world.driver.connect = refused;
      return () => {
        world.driver.connect = connect;
      };
    },
    'the agent speaks another protocol': (world, id) => {
      world.driver.incompatible.add(id);
      return () => world.driver.incompatible.clear();
    },
  };

  for (const [title, cause] of Object.entries(FAULTS)) {
    it(`a wake that fails leaves the sandbox paused with everything: ${title}`, async () => {
      await using world = await openPauses();
      const id = await world.createReady();
      await world.run(id, 'set a 1');
      const paused = await pause(world, id);
      const mend = cause(world, id);
      // The connection to the agent is made anew.
      await world.crash().catch(() => undefined);
      for (const wake of [() => resume(world, id), () => world.run(id, 'get a')]) {
        await assert.rejects(wake(), ({ code }) => ['unavailable', 'sandbox_incompatible'].includes(code));
        const now = await world.get(id);
        assert.deepEqual([now.paused, now.expiresAt], [paused.paused, paused.expiresAt]);
      }
      mend();
      await world.crash();
      assert.ok(isFrozen(world, id));
      assert.equal((await world.run(id, 'get a')).stdout, '1\n');
    });
  }

  it('a wake that fails because the instance is lost ends the sandbox, if its disk is not kept', async () => {
    await using world = await openPauses();
    world.driver.parking = undefined;
    const id = await world.createReady();
    await pause(world, id);
    world.driver.lose(id);
    await assert.rejects(resume(world, id));
    await world.until(async () => (await world.get(id)).status === 'destroyed');
    assert.equal((await world.get(id)).destroyedReason, 'platform_cleanup');
  });
});
