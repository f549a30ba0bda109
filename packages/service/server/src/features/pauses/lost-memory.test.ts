/** Pauses that keep the files of sandboxes alone, on a real database and a fake runtime. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { operations } from '@cloche/contract';
import { LaunchError, ParkingError } from '@cloche/runtime';
import { isFrozen, openPauses, pause, pauseEvents, resume } from '../../../testing/pauses.ts';
import type { SandboxesWorld } from '../../../testing/sandboxes.ts';

const DROP = { memory: 'drop' } as const;
const at = (ms: number) => new Date(ms).toISOString();
const keptOf = async ({ driver }: SandboxesWorld) =>
  (await driver.kept.parked()).map(({ sandboxId, generation }) => `${sandboxId}/${generation}`);

describe('a sandbox that is paused without its memory', () => {
  it('a sandbox that is paused without its memory has no instance, and is booted from its files as the next generation', async () => {
    await using world = await openPauses();
    const networkPolicy = { mode: 'deny-all' };
    const id = await world.createReady({ env: { COLOUR: 'red' }, networkPolicy });
    await world.run(id, 'set a 41');
    const before = await world.get(id);
    const disk = world.driver.agentOf(id).disk;
    const paused = await pause(world, id, DROP);
    const now = world.clock.now();
    const lost = { memory: 'lost', lostReason: 'asked' } as const;
    assert.deepEqual(paused, {
      ...before,
      status: 'idle',
      expiresAt: paused.expiresAt,
      paused: { at: at(now), by: 'request', place: 'disk', ...lost },
    });
    assert.deepEqual([world.driver.instances(), await keptOf(world)], [[], [`${id}/1`]]);
    await world.server.reconcile();
    assert.deepEqual(await world.get(id), paused, 'a pass of the reconciler leaves it');

    const { resumed, paused: none, networkPolicy: policy } = await resume(world, id);
    assert.deepEqual([resumed, none, policy], [{ at: at(now), by: 'request', ...lost }, undefined, networkPolicy]);
    assert.deepEqual(
      world.driver.instances().map(({ generation }) => generation),
      [2],
    );
    assert.equal(world.driver.agentOf(id).disk, disk);
    assert.deepEqual(world.driver.launches.at(-1)?.spec.network, networkPolicy);
    assert.deepEqual(world.driver.agentOf(id).environment, { COLOUR: 'red' });
    assert.deepEqual(await pauseEvents(world), ['sandbox.paused', 'sandbox.resumed']);
  });

  it('a sandbox that is paused without its memory keeps its contexts, whose first result says that their state is lost', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const first = await world.run(id, 'set a 41');
    await pause(world, id, DROP);
    const run = await world.run(id, 'get a');
    assert.deepEqual([run.contextId, run.error?.name, run.stateLost], [first.contextId, 'NameError', true]);
    assert.equal((await world.get(id)).resumed?.by, 'operation');
    assert.equal((await world.run(id, 'print x')).stateLost, undefined, 'the first result alone');
  });

  it('a sandbox that is paused without its memory has background commands that were killed, and says why', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const { id: commandId } = await world.runCommand(id, { command: ['bash', 'hang'], background: true });
    await pause(world, id, DROP);
    const get = async () => (await world.call(operations.getCommand, { params: { sandboxId: id, commandId } })).command;
    const killed = await get();
    assert.deepEqual([killed.status, killed.signal, killed.exitCode], ['killed', 'SIGKILL', 137]);
    assert.match(killed.failureReason ?? '', /was paused/);
    await resume(world, id);
    assert.deepEqual(await get(), killed);
    assert.notEqual((await world.get(id)).status, 'running');
  });

  it('a sandbox that is paused without its memory is not woken by a visitor, and not by an operation if its policy is explicit', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ pause: { wake: 'explicit' } });
    await pause(world, id, DROP);
    await assert.rejects(world.run(id, 'print x'), {
      code: 'sandbox_paused',
      details: { wake: 'explicit', memory: 'lost' },
    });
    const visited = await world.createReady({ pause: { wake: 'traffic' } });
    await pause(world, visited, DROP);
    const { sandboxes, sandboxUse } = world.server.core;
    const record = await sandboxes.find(visited);
    assert.ok(record);
    const visit = sandboxUse.awake(record, new AbortController().signal, { by: 'traffic' });
    await assert.rejects(visit, { code: 'sandbox_paused' });
    assert.deepEqual(world.driver.instances(), []);
  });

  it('a sandbox that is paused without its memory begins its start command again when it is booted', async () => {
    await using world = await openPauses();
    const id = await world.createReady({ startCommand: { command: ['bash', 'hang'] } });
    const commands = async () =>
      (await world.call(operations.listCommands, { params: { sandboxId: id } })).data.map(({ status }) => status);
    await world.until(async () => (await commands()).length === 1);
    await pause(world, id, DROP);
    assert.deepEqual(await commands(), ['killed']);
    await resume(world, id);
    await world.until(async () => (await commands()).length === 2);
    assert.deepEqual((await commands()).toSorted(), ['killed', 'running']);
  });

  it('a sandbox that is paused without its memory stays so with its files when it cannot be booted, and a later attempt works', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const paused = await pause(world, id, DROP);
    const faults: readonly [string, () => void][] = [
      ['no room', () => world.driver.launchErrors.push(new LaunchError('no_capacity', 'full'))],
      ['a launch that fails', () => world.driver.launchErrors.push(new LaunchError('failed', 'no'))],
      ['a damaged disk', () => world.driver.kept.broken.add(id)],
      ['an agent of another protocol', () => world.driver.incompatible.add(id)],
    ];
    for (const [title, occur] of faults) {
      occur();
      await assert.rejects(resume(world, id), title);
      assert.deepEqual(await world.get(id), paused, title);
      assert.deepEqual([world.driver.instances(), await keptOf(world)], [[], [`${id}/1`]], title);
      world.driver.kept.broken.clear();
      world.driver.incompatible.clear();
    }
    assert.equal((await resume(world, id)).resumed?.memory, 'lost');
  });

  it('a sandbox that is paused without its memory leaves no disk when it is destroyed, asleep or after a wake', async () => {
    await using world = await openPauses();
    const [asleep, woken] = [await world.createReady(), await world.createReady()];
    for (const id of [asleep, woken]) await pause(world, id, DROP);
    await resume(world, woken);
    for (const id of [asleep, woken]) assert.equal((await world.kill(id)).destroyedReason, 'user_killed');
    assert.deepEqual([world.driver.instances(), await keptOf(world)], [[], []]);
    assert.deepEqual(
      (await pauseEvents(world)).filter((type) => type === 'sandbox.resumed').length,
      1,
      'an end wakes nothing',
    );
  });

  it('a sandbox that is paused without its memory ends with its retention, and leaves no disk', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await pause(world, id, { ...DROP, retainMs: 60_000 });
    world.clock.advance(60_000);
    await world.until(async () => (await world.get(id)).status === 'destroyed');
    assert.equal((await world.get(id)).destroyedReason, 'idle_expired');
    await world.until(async () => (await keptOf(world)).length === 0);
  });

  it('a sandbox that is paused without its memory goes through pauses of each kind with its files', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const disk = world.driver.agentOf(id).disk;
    for (const [round, memory] of ['drop', 'keep', 'drop', 'prefer', 'drop'].entries()) {
      await pause(world, id, { memory });
      await world.run(id, 'print x');
      assert.equal(world.driver.agentOf(id).disk, disk, `round ${round}`);
    }
    assert.equal((await keptOf(world)).length, 1);
  });

  it('a sandbox that is paused without its memory is refused where the host keeps no disks', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    world.driver.parking = undefined;
    const refusal = { code: 'conflict', details: { reason: 'memory_unsupported' } };
    await assert.rejects(pause(world, id, DROP), refusal);
    assert.equal((await world.get(id)).paused, undefined);
    await pause(world, id);
    await assert.rejects(pause(world, id, DROP), refusal);
    await assert.rejects(resume(world, id, DROP), refusal);
    assert.ok(isFrozen(world, id));
  });

  it('a sandbox that is to be paused without its memory goes on when its host cannot keep its disk', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await world.run(id, 'set a 41');
    world.driver.kept.park = async () => {
      throw new ParkingError('unsupported', 'launched by an earlier release');
    };
    await assert.rejects(pause(world, id, DROP), { code: 'conflict' });
    assert.equal((await world.run(id, 'get a')).stdout, '41\n');
  });
});

describe('memory that is dropped', () => {
  it('memory that is dropped of a paused sandbox is lost from then on, and the time of the pause stays', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    const kept = await pause(world, id);
    world.clock.advance(5_000);
    const lost = await pause(world, id, DROP);
    const changed = { memory: 'lost', place: 'disk', lostReason: 'asked' };
    assert.deepEqual(lost, { ...kept, paused: { ...kept.paused, ...changed } });
    assert.deepEqual(await pause(world, id, DROP), lost, 'once more');
    assert.deepEqual(await pause(world, id, { memory: 'keep' }), lost, 'it does not come back');
    assert.deepEqual(await pauseEvents(world), ['sandbox.paused', 'sandbox.memory_lost']);
    assert.deepEqual(world.driver.instances(), []);
  });

  it('memory that is dropped by a resume boots the sandbox from its files', async () => {
    await using world = await openPauses();
    const id = await world.createReady();
    await world.run(id, 'set a 41');
    await pause(world, id);
    const { resumed } = await resume(world, id, DROP);
    assert.deepEqual([resumed?.memory, resumed?.lostReason], ['lost', 'asked']);
    assert.equal((await world.run(id, 'get a')).stateLost, true);
    const awake = await world.get(id);
    assert.deepEqual(await resume(world, id, DROP), awake, 'nothing is dropped of one that is awake');
    await pause(world, id);
    assert.equal((await resume(world, id)).resumed?.memory, 'kept');
  });
});

it('the usage of an instance that a pause has ended is counted, and nothing but the disk from then on', async () => {
  await using world = await openPauses();
  const id = await world.createReady();
  const usage = async () => (await world.call(operations.getSandboxUsage, { params: { sandboxId: id } })).usage;
  world.driver.spend(id, { cpuMs: 700 });
  world.clock.advance(1_000);
  await pause(world, id, DROP);
  const atPause = await usage();
  assert.equal(atPause.cpuMs, 700);
  world.clock.advance(10_000);
  await world.usage.rollUp.pass();
  const asleep = await usage();
  assert.equal(asleep.memoryMbMs, atPause.memoryMbMs);
  assert.ok(asleep.diskMbMs > atPause.diskMbMs);
  await resume(world, id);
  world.driver.spend(id, { cpuMs: 50 });
  await world.usage.rollUp.pass();
  assert.equal((await usage()).cpuMs, 750);
});
