/** Pauses that the service makes by itself, on a real database, a fake runtime and a clock of the test. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { operations, type SandboxId } from '@cloche/contract';
import { AgentError, LaunchError } from '@cloche/runtime';
import {
  freezingOf,
  isFrozen,
  LAG_MS,
  openPauses,
  passIdle,
  pause,
  pauseEvents,
  resume,
  untilRead,
} from '../../../testing/pauses.ts';
import { ORG } from '../../../testing/seeded-organizations.ts';

type World = Awaited<ReturnType<typeof openPauses>>;
const at = (ms: number) => new Date(ms).toISOString();

const isPaused = async (world: World, id: SandboxId) => (await world.get(id)).paused !== undefined;

describe('a pause by idleness', () => {
  it('a pause by idleness comes when nothing has used the sandbox for so long, and says so', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ pause: { afterIdleMs: 10_000, retainMs: 90_000 } });
    await world.run(id, 'set a 41');
    world.clock.advance(1_000 + LAG_MS);
    await untilRead(world);
    world.clock.advance(8_999 - LAG_MS);
    await delay(20);
    assert.ok(!(await isPaused(world, id)), 'a millisecond before');
    world.clock.advance(1 + LAG_MS);
    await world.until(() => isPaused(world, id));
    const now = world.clock.now();
    const { status, paused, expiresAt } = await world.get(id);
    assert.deepEqual(
      [status, paused, expiresAt],
      ['idle', { at: at(now), by: 'idle', memory: 'kept', place: 'memory' }, at(now + 90_000)],
    );
    assert.ok(isFrozen(world, id));
    assert.equal((await world.run(id, 'get a')).stdout, '41\n');
    assert.deepEqual(await pauseEvents(world), ['sandbox.paused', 'sandbox.resumed']);
    const audited = await world.db.selectFrom('audit_events').select(['action', 'actor_type']).orderBy('seq').execute();
    assert.deepEqual(
      audited.map((row) => [row.action, row.actor_type]),
      [
        ['sandbox.paused', 'system'],
        ['sandbox.resumed', 'system'],
      ],
    );
  });

  it('a pause by idleness comes for a sandbox that was never used, and not for the time of its launch', async () => {
    await using world = await openPauses();
    const release = world.driver.holdLaunches();
    const { id } = await world.create({ pause: { afterIdleMs: 10_000 } });
    world.clock.advance(25_000);
    release();
    await world.waitFor(id, 'ready');
    await passIdle(world, 9_000);
    await delay(50);
    assert.ok(!(await isPaused(world, id)));
    world.clock.advance(2_000);
    await world.until(() => isPaused(world, id));
  });

  it('a pause by idleness comes the whole time after a wake', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ pause: { afterIdleMs: 10_000 } });
    await passIdle(world, 11_000);
    await world.until(() => isPaused(world, id));
    world.clock.advance(30_000);
    await resume(world, id);
    await passIdle(world, 9_000);
    await delay(50);
    assert.ok(!(await isPaused(world, id)));
    world.clock.advance(2_000);
    await world.until(() => isPaused(world, id));
  });

  const USES: Record<string, (world: World, id: SandboxId) => Promise<unknown>> = {
    'a run': (world, id) => world.run(id, 'print x'),
    'a waited command': (world, id) => world.runCommand(id, { command: ['bash', 'print x'] }),
    'the start of a background command': (world, id) =>
      world.runCommand(id, { command: ['bash', 'hang'], background: true }),
    'a list of files': (world, id) => world.call(operations.listFiles, { params: { sandboxId: id }, query: {} }),
    'a new directory': (world, id) =>
      world.call(operations.makeDirectory, { params: { sandboxId: id }, body: { path: 'made' } }),
    'a new context': (world, id) =>
      world.call(operations.createContext, { params: { sandboxId: id }, body: { language: 'python' } }),
  };
  for (const [title, use] of Object.entries(USES)) {
    it(`a pause by idleness counts from the last use: ${title}`, async () => {
      await using world = await openPauses();
      const id = await world.createReady({ pause: { afterIdleMs: 10_000 } });
      await passIdle(world, 8_000);
      await use(world, id);
      await passIdle(world, 9_000);
      await delay(50);
      assert.ok(!(await isPaused(world, id)));
      world.clock.advance(2_000);
      await world.until(() => isPaused(world, id));
    });
  }

  const LOOKS: Record<string, (world: World, id: SandboxId) => Promise<unknown>> = {
    'its record': (world, id) => world.get(id),
    'the list': (world) => world.call(operations.listSandboxes),
    'its usage': (world, id) => world.call(operations.getSandboxUsage, { params: { sandboxId: id } }),
    'its metrics': (world, id) => world.call(operations.getSandboxMetrics, { params: { sandboxId: id }, query: {} }),
    'its contexts': (world, id) => world.call(operations.listContexts, { params: { sandboxId: id } }),
  };
  for (const [title, look] of Object.entries(LOOKS)) {
    it(`a pause by idleness does not wait for who reads ${title}`, async () => {
      await using world = await openPauses();
      const id = await world.createReady({ pause: { afterIdleMs: 10_000 } });
      await passIdle(world, 6_000);
      await look(world, id);
      world.clock.advance(5_000);
      await world.until(() => isPaused(world, id));
    });
  }

  it('a pause by idleness never comes while a request uses the sandbox', async () => {
    await using world = await openPauses();
    const [running, waited] = [
      await world.createReady({ pause: { afterIdleMs: 1_000 } }),
      await world.createReady({ pause: { afterIdleMs: 1_000 } }),
    ];
    const run = world.run(running, 'hang');
    const command = world.runCommand(waited, { command: ['bash', 'hang'] });
    await world.until(() => world.agent(waited).areRunning);
    await world.waitFor(running, 'running');
    const witness = await world.createReady({ pause: { afterIdleMs: 1_000 } });
    await passIdle(world, 60_000);
    await world.until(() => isPaused(world, witness));
    assert.deepEqual([(await world.get(running)).status, (await world.get(waited)).status], ['running', 'running']);
    await Promise.all([world.kill(running), world.kill(waited)]);
    await Promise.all([run, command]);
  });

  it('a pause by idleness comes while a background command waits, and not while it computes', async () => {
    await using world = await openPauses();
    const [waiting, computing] = [
      await world.createReady({ pause: { afterIdleMs: 100_000 } }),
      await world.createReady({ pause: { afterIdleMs: 100_000 } }),
    ];
    for (const id of [waiting, computing]) await world.runCommand(id, { command: ['bash', 'hang'], background: true });
    // 2 % of 100 s, of one core.
    world.driver.spend(waiting, { cpuMs: 500 });
    await passIdle(world, 101_000, 2_000, computing);
    world.driver.spend(waiting, { cpuMs: 1_900 });
    await world.until(() => isPaused(world, waiting));
    assert.equal((await world.get(computing)).status, 'running');
    // From here on it computes no more, so that its average falls.
    for (let step = 0; step < 30; step += 1) {
      world.clock.advance(4_000);
      // Once it is paused, nothing is read any more.
      await Promise.race([untilRead(world), world.until(() => isPaused(world, computing))]);
      if (await isPaused(world, computing)) break;
    }
    assert.ok(await isPaused(world, computing));
    assert.equal((await world.get(computing)).paused?.by, 'idle');
  });

  it('a pause by idleness waits for a host that says what sandboxes use', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ pause: { afterIdleMs: 1_000 } });
    const usesOf = world.driver.usesOf.bind(world.driver);
    let asked = 0;
    world.driver.usesOf = async () => {
      asked += 1;
      throw new LaunchError('failed', 'no such path');
    };
    world.clock.advance(60_000);
    await world.until(() => asked > 3);
    assert.ok(!(await isPaused(world, id)));
    world.driver.usesOf = usesOf;
    await untilRead(world);
    await passIdle(world, 2_000);
    await world.until(() => isPaused(world, id));
  });

  it('a pause by idleness does not come where the quota of paused sandboxes is used up, and comes when it has room', async () => {
    await using world = await openPauses();
    await world.limits.setOrganization(ORG, { pausedSandboxes: 1 });
    const other = await world.createReady();
    await pause(world, other);
    const id = await world.createReady({ pause: { afterIdleMs: 1_000 } });
    await passIdle(world, 5_000);
    await delay(100);
    assert.ok(!(await isPaused(world, id)));
    assert.equal((await world.run(id, 'print x')).stdout, 'x\n');
    const refused = await world.db.selectFrom('events').select('type').where('type', '=', 'quota.exceeded').execute();
    assert.deepEqual(refused, []);
    await resume(world, other);
    await passIdle(world, 5_000);
    await world.until(() => isPaused(world, id));
  });

  it('a pause by idleness of an agent that does not answer is given up', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ pause: { afterIdleMs: 1_000 } });
    const { connect } = world.driver;
    let asked = 0;
    world.driver.connect = async (...parts) => ({
      ...(await connect.apply(world.driver, parts)),
      pause: (_token, _options, signal) => {
        asked += 1;
        return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
      },
    });
    await world.crash();
    await passIdle(world, 5_000);
    await world.until(() => asked > 0);
    await world.until(async () => (await world.run(id, 'print x')).stdout === 'x\n');
    assert.ok(!isFrozen(world, id));
    assert.deepEqual(await pauseEvents(world), []);
  });

  it('a pause by idleness loses against a request that arrives at any moment, in 200 races', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ pause: { afterIdleMs: 1_000 } });
    await world.run(id, 'set n 0');
    for (let round = 0; round < 200; round += 1) {
      if (!(await isPaused(world, id))) {
        world.clock.advance(600 + LAG_MS);
        await untilRead(world);
        world.clock.advance(600);
      }
      for (let turns = 0; turns < round % 20; turns += 1) await new Promise(setImmediate);
      const run = await world.run(id, `print ${round}`);
      assert.deepEqual([run.stdout, run.error, run.stateLost], [`${round}\n`, undefined, undefined]);
    }
    const [context] = world.driver.agentOf(id).contexts.values();
    assert.equal(context?.count, 201);
  });

  it('a pause by idleness is made by one of several servers', async () => {
    await using world = await openPauses();
    await using other = await world.beside('srv_2');
    const ids = await Promise.all(
      Array.from({ length: 10 }, (_, n) => (n % 2 ? world : other).createReady({ pause: { afterIdleMs: 5_000 } })),
    );
    for (const [n, id] of ids.entries()) await (n % 3 ? other : world).run(id, 'print x');
    await world.until(async () => {
      // Sweeps come by the time of the machine, and each server needs a reading at both ends of the time without use.
      world.clock.advance(50);
      return (await Promise.all(ids.map((id) => isPaused(world, id)))).every(Boolean);
    });
    assert.deepEqual(
      await pauseEvents(world),
      ids.map(() => 'sandbox.paused'),
    );
  });

  it('a pause by idleness waits for what another server does in the sandbox', async () => {
    await using world = await openPauses();
    await using other = await world.beside('srv_2');
    const id = await other.createReady({ pause: { afterIdleMs: 1_000 } });
    const run = other.run(id, 'hang');
    await other.waitFor(id, 'running');
    for (let step = 0; step < 20; step += 1) {
      world.clock.advance(500);
      await delay(30);
    }
    assert.ok(!(await isPaused(other, id)));
    await other.kill(id);
    await run;
  });
});

describe('a pause at expiry', () => {
  it('a pause at expiry comes in place of the end, whatever runs', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ ttlMs: 10_000, pause: { onExpiry: true, retainMs: 60_000 } });
    const run = world.run(id, 'hang');
    await world.waitFor(id, 'running');
    const background = await world.runCommand(id, { command: ['bash', 'hang'], background: true });
    world.clock.advance(10_000);
    await world.until(() => isPaused(world, id));
    const { paused, expiresAt } = await world.get(id);
    const now = world.clock.now();
    assert.deepEqual(
      [paused, expiresAt],
      [{ at: at(now), by: 'expiry', memory: 'kept', place: 'memory' }, at(now + 60_000)],
    );
    assert.equal((await run).error?.name, 'CanceledError');
    assert.equal((await world.getCommand(id, background.id)).status, 'running');
    await resume(world, id);
    assert.equal((await world.get(id)).expiresAt, at(now + 10_000));
    world.clock.advance(10_000);
    await world.until(() => isPaused(world, id));
    world.clock.advance(60_000);
    await world.until(async () => (await world.get(id)).status === 'destroyed');
    assert.equal((await world.get(id)).destroyedReason, 'idle_expired');
  });

  it('a pause at expiry loses against an extension that arrives before it', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ ttlMs: 10_000, pause: { onExpiry: true } });
    const witness = await world.createReady({ ttlMs: 10_000, pause: { onExpiry: true } });
    await world.call(operations.setSandboxTtl, { params: { sandboxId: id }, body: { ttlMs: 20_000 } });
    world.clock.advance(10_000);
    await world.until(() => isPaused(world, witness));
    assert.equal((await world.get(id)).status, 'ready');
    // The statement compares the expiry, should the extension come after the look.
    const { sandboxes } = world.server.core;
    const seen = await sandboxes.find(id);
    assert.ok(seen);
    const change = { owner: 'srv_1', token: 'late', due: {} };
    assert.equal(await sandboxes.move({ ...seen, expiresAt: seen.expiresAt - 1 }, 'beginPause', change), undefined);
    const set = () => world.call(operations.setSandboxTtl, { params: { sandboxId: witness }, body: { ttlMs: 20_000 } });
    await assert.rejects(set(), { code: 'sandbox_paused' });
  });

  it('a pause at expiry waits for a sandbox that is being created', async () => {
    await using world = await openPauses();
    const release = world.driver.holdLaunches();
    const { id } = await world.create({ ttlMs: 1_000, pause: { onExpiry: true } });
    world.clock.advance(5_000);
    await delay(50);
    assert.equal((await world.get(id)).status, 'creating');
    release();
    await world.until(() => isPaused(world, id));
  });

  it('a pause at expiry is refused by no quota', async () => {
    await using world = await openPauses();
    const make = () => world.createReady({ ttlMs: 10_000, pause: { onExpiry: true } });
    const ids = [await make(), await make(), await make()];
    await world.limits.setOrganization(ORG, { pausedSandboxes: 1, pausedMemoryMb: 1 });
    world.clock.advance(10_000);
    await world.until(async () => (await Promise.all(ids.map((id) => isPaused(world, id)))).every(Boolean));
  });

  it('a pause at expiry waits for a host that does not answer, where another sandbox ends by its record', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ ttlMs: 10_000, pause: { onExpiry: true } });
    const other = await world.createReady({ ttlMs: 10_000 });
    world.driver.isDown = true;
    world.clock.advance(10_000);
    await world.until(async () => (await world.get(other)).status === 'expiring');
    await delay(100);
    assert.ok(!(await isPaused(world, id)) && (await world.get(id)).status !== 'destroyed');
    const set = () => world.call(operations.setSandboxTtl, { params: { sandboxId: id }, body: { ttlMs: 20_000 } });
    await assert.rejects(set(), { code: 'sandbox_paused' });
    world.driver.isDown = false;
    for (let step = 0; step < 5; step += 1) {
      world.clock.advance(2_000);
      await delay(20);
    }
    await world.until(() => isPaused(world, id));
    assert.equal((await world.get(id)).paused?.by, 'expiry');
    assert.equal((await resume(world, id)).status, 'ready');
  });

  it('a pause at expiry of an agent that has no gate is the end', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ ttlMs: 10_000, pause: { onExpiry: true } });
    const { connect } = world.driver;
    world.driver.connect = async (...parts) => ({
      ...(await connect.apply(world.driver, parts)),
      pause: async () => {
        throw new AgentError('not_found', 'no such path');
      },
    });
    await world.crash();
    world.clock.advance(10_000);
    await world.until(async () => (await world.get(id)).status === 'destroyed');
    assert.equal((await world.get(id)).destroyedReason, 'ttl_expired');
  });

  it('a pause at expiry whose server ends is finished by another, with its cause', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ ttlMs: 10_000, pause: { onExpiry: true } });
    const { sandboxes } = world.server.core;
    const record = await sandboxes.find(id);
    assert.ok(record);
    const begun = { owner: 'srv_dead', token: 'token', pausedBy: 'expiry' as const, due: {} };
    assert.ok(await sandboxes.move(record, 'beginPause', begun));
    await freezingOf(world).freeze({ sandboxId: id, generation: 1 }, AbortSignal.timeout(60_000));
    world.clock.advance(10_000);
    await world.until(() => isPaused(world, id));
    assert.equal((await world.get(id)).paused?.by, 'expiry');
    assert.deepEqual(await pauseEvents(world), ['sandbox.paused']);
  });

  it('a pause at expiry is made by one of several servers', async () => {
    await using world = await openPauses();
    await using other = await world.beside('srv_2');
    const make = () => world.createReady({ ttlMs: 10_000, pause: { onExpiry: true } });
    const ids = await Promise.all(Array.from({ length: 10 }, make));
    world.clock.advance(10_000);
    await world.until(async () => (await Promise.all(ids.map((id) => isPaused(other, id)))).every(Boolean));
    assert.deepEqual(
      await pauseEvents(world),
      ids.map(() => 'sandbox.paused'),
    );
  });
});
